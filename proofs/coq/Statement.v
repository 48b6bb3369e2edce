(* What it means that a file is accepted if its listed numbers are right; for files with other laws than those of DP-SGD.
   One step of a mechanism is a probability space P and x >= 0 on it: x = dQ/dP = e^(-loss), 0 where the loss is infinite.
   The records of a proof file (file, section, kind, grid, source) are in Reader.v and Step.v; [judge_text] (Judge.v) reads a text. *)
Require Import Evr.Setup.
Require Import Evr.Step Evr.Reader Evr.Judge.
Require Export Evr.Volume Evr.Training.
Local Open Scope classical_set_scope. Local Open Scope ring_scope.
Unset Implicit Arguments.
Local Open Scope R_scope.

(* The integral of f(x) against P. *)
Definition integral d (T : measurableType d) (P : {measure set T -> \bar RR}) (x : T -> RR) (f : R -> R) : R :=
  fine (\int[P]_t (f (x t) : RR)%:E)%E.

(* Non-negative, falling and convex on [0, oo). *)
Definition falling_convex (f : R -> R) : Prop :=
  (forall x, 0 <= x -> 0 <= f x) /\ (forall x y, 0 <= x -> x <= y -> f y <= f x) /\
  (forall x y t, 0 <= x -> 0 <= y -> 0 <= t <= 1 -> f (t * x + (1 - t) * y) <= t * f x + (1 - t) * f y).

(* The loss at a place of a grid; the sum of masses at the losses of sets. *)
Definition loss (den spacing : Z) (g : grid) (p : Z) : R :=
  IZR (g_off g) / IZR den + IZR p * (IZR spacing / IZR (den * size g)).
Fixpoint at_sets (D : Z) (masses : list R) (sets : list (Z * (Z * Z))) (f : R -> R) : R :=
  match masses, sets with
  | (m :: masses')%list, ((_, (_, l)) :: sets')%list => m * f (exp (- (IZR l / IZR D))) + at_sets D masses' sets' f
  | _, _ => 0
  end.

(* "The listed numbers enclose the curve of the step", or "the listed sets are no better than its outcomes";
   or, if nothing is listed, "the curve is the one that the law states". *)
Definition listed_truly (den spacing : Z) (law : text) (d : direction) (k : kind) (mu : (R -> R) -> R) : Prop :=
  let g := k_grid k in
  let V := IZR (2 ^ k_vbits k) in
  match k_source k with
  | Curve values =>
      List.Forall2 (fun p vd => IZR (fst vd) <= V * mu (excess (loss den spacing g p)) <= IZR (fst vd + snd vd)) (places g) values
  | Outcomes infinite sets =>
      exists (masses : list R) (z : R),
        List.Forall2 (fun m s => 0 <= m /\ m * V <= IZR (fst (snd s))) masses sets /\
        0 <= z /\ z * V <= IZR infinite /\ List.fold_right Rplus 0 masses + z = 1 /\
        forall f, falling_convex f -> mu f <= at_sets (den * size g * 2 ^ k_vbits k) masses sets f + z * f 0
  | Own => exists n : noise, states law n /\ forall y, mu (excess y) = step n d (excess y)
  end.

Definition serves (m : mark) (d : direction) : Prop :=
  match m, d with Both, _ | Remove, remove | Add, add => True | _, _ => False end.

(* T0. If a file is not refused, delta of the steps that it states is at most the delta that it states, in both directions:
   for any probability spaces, one for each law and direction, of which the listed numbers are true. *)
Definition accepted_is_true : Prop :=
  forall (t : text) (F : file) (bounds : list (option Z)) (v : verdict),
  judge_text t = Judged F bounds v -> (forall why, v <> Refused why) ->
  forall (disp : direction -> text -> measure_display) (T : forall d law, measurableType (disp d law))
         (P : forall d law, {measure set (T d law) -> \bar RR}) (x : forall d law, T d law -> RR),
  (forall d law, P d law setT = 1%E) -> (forall d law, measurable_fun setT (x d law)) -> (forall d law o, 0 <= x d law o) ->
  let mu d k := integral _ _ (P d (law_text F k)) (x d (law_text F k)) in
  (forall m s d k kd, List.In (m, s) (f_sections F) -> serves m d -> List.nth_error (s_kinds s) k = Some kd ->
     listed_truly (s_den s) (s_spacing s) (law_text F k) d kd (mu d k)) ->
  forall (d : direction) (order : list nat), states_order F order ->
  composed (mu d) order (excess (epsilon F)) <= delta F.
