(* What the checker's "accepted" means, whole. Read this file; nothing else has to be understood, and no proof.
   One step of a mechanism is a probability space P and x >= 0 on it: x = dQ/dP = e^(-loss), 0 where the loss is infinite.
   The records of a proof file (file, section, kind, grid, source) are in Reader.v and Step.v; [judge] (Judge.v) reads a text. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum.
From mathcomp.classical Require Import boolp classical_sets.
From mathcomp.analysis Require Import reals ereal Rstruct measure lebesgue_measure lebesgue_integral.
Require Import Reals ZArith List.
Require Import Evr.Step Evr.Reader Evr.Judge.
Local Open Scope classical_set_scope.
Local Open Scope ring_scope.
Local Open Scope R_scope.

Notation RR := real_realType.

(* The integral of f(x) against P. *)
Definition integral d (T : measurableType d) (P : {measure set T -> \bar RR}) (x : T -> RR) (f : R -> R) : R :=
  fine (\int[P]_t (f (x t) : RR)%:E)%E.

(* (1 - e^eps x)+: its integral is the privacy curve of a step, sup_A P(A) - e^eps Q(A). *)
Definition excess (eps x : R) : R := Rmax 0 (1 - exp eps * x).

(* The integral of f(x_1 x_2 ... x_n) over independent steps w = [k_1; ...; k_n]; with f = excess eps it is their delta(eps). *)
Fixpoint composed (step : nat -> (R -> R) -> R) (w : list nat) (f : R -> R) : R :=
  match w with nil => f 1 | (k :: w')%list => step k (fun x => composed step w' (fun y => f (x * y))) end.

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

(* "The listed numbers enclose the curve of the step", or "the listed sets are no better than its outcomes". *)
Definition listed_truly (den spacing : Z) (k : kind) (step : (R -> R) -> R) : Prop :=
  let g := k_grid k in
  let V := IZR (2 ^ k_vbits k) in
  match k_source k with
  | Curve values =>
      List.Forall2 (fun p vd => IZR (fst vd) <= V * step (excess (loss den spacing g p)) <= IZR (fst vd + snd vd)) (places g) values
  | Outcomes infinite sets =>
      exists (masses : list R) (z : R),
        List.Forall2 (fun m s => 0 <= m /\ m * V <= IZR (fst (snd s))) masses sets /\
        0 <= z /\ z * V <= IZR infinite /\ List.fold_right Rplus 0 masses + z = 1 /\
        forall f, falling_convex f -> step f <= at_sets (den * size g * 2 ^ k_vbits k) masses sets f + z * f 0
  end.

Inductive direction := remove | add.
Definition serves (m : mark) (d : direction) : Prop :=
  match m, d with Both, _ | Remove, remove | Add, add => True | _, _ => False end.
Definition law_text (F : file) (k : nat) : text := List.nth k (List.map snd (f_steps F)) nil.

(* If a text is accepted, delta of the steps that it states is at most the delta that it states, in both directions:
   for any probability spaces, one for each law and direction, whose curves the listed numbers enclose. *)
Definition accepted_is_true : Prop :=
  forall (t : text) (F : file) (bounds : list (option Z)),
  judge verify t = Judged F bounds true ->
  forall (disp : direction -> text -> measure_display) (T : forall d law, measurableType (disp d law))
         (P : forall d law, {measure set (T d law) -> \bar RR}) (x : forall d law, T d law -> RR),
  (forall d law, P d law setT = 1%E) -> (forall d law, measurable_fun setT (x d law)) -> (forall d law o, 0 <= x d law o) ->
  let step d k := integral _ _ (P d (law_text F k)) (x d (law_text F k)) in
  (forall m s d k kd, List.In (m, s) (f_sections F) -> serves m d -> List.nth_error (s_kinds s) k = Some kd ->
     listed_truly (s_den s) (s_spacing s) kd (step d k)) ->
  forall (d : direction) (w : list nat),
  (forall k, Z.of_nat (List.count_occ Nat.eq_dec w k) = List.nth k (List.map fst (f_steps F)) 0%Z) ->
  composed (step d) w (excess (IZR (fst (f_epsilon F)) / IZR (snd (f_epsilon F)))) <=
    IZR (fst (f_delta F)) / IZR (snd (f_delta F)).
