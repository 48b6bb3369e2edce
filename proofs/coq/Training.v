(* READ THIS FILE FIRST. It defines DP-SGD and says what "proved for DP-SGD" means; it proves nothing.
   [judge_text] (Judge.v) is the program that runs: it reads the text of a proof file and answers [Judged F bounds verdict].
   The two statements at the end are proved in Main.v (computed_main) and in DpSgd.v (dpsgd_main).
   Measures and integrals are those of mathcomp-analysis; [leb] is Lebesgue measure on the line. *)
Require Import String Evr.Setup.
Require Import Evr.Volume Evr.Step Evr.Reader Evr.Laws Evr.Judge.
Local Open Scope classical_set_scope. Local Open Scope ring_scope.

(* ---------- What a proof file states ---------- *)

Definition epsilon (F : file) : R := (IZR (fst (f_epsilon F)) / IZR (snd (f_epsilon F)))%R.
Definition delta (F : file) : R := (IZR (fst (f_delta F)) / IZR (snd (f_delta F)))%R.

(* A sampling rate and a noise multiplier. The law "poisson(a/b,gaussian(c/d))" states the rate a/b and the multiplier c/d,
   "gaussian(c/d)" the rate 1; "gaussians(c/d)" in its place, the multiplier sqrt(d/c). Other texts state nothing. *)
Record noise := Noise { rate : R; dev : R; rate_ok : (0 <= rate <= 1)%R; dev_ok : (0 < dev)%R }.
Definition states (law : text) (n : noise) : Prop := exists o : own, read_own law = Some o /\
  rate n = (IZR (o_a o) / IZR (o_b o))%R /\
  dev n = (if o_square o then sqrt (IZR (o_d o) / IZR (o_c o)) else IZR (o_c o) / IZR (o_d o))%R.

(* Step j of a training has the law number [nth j order 0]: a file states its laws and how often each is used, in any order. *)
Definition law_text (F : file) (k : nat) : text := List.nth k (List.map snd (f_steps F)) nil.
Definition states_laws (F : file) (laws : nat -> noise) : Prop :=
  forall k, (k < List.length (f_steps F))%coq_nat -> states (law_text F k) (laws k).
Definition states_order (F : file) (order : list nat) : Prop :=
  forall k, Z.of_nat (List.count_occ Nat.eq_dec order k) = List.nth k (List.map fst (f_steps F)) 0%Z.

(* ---------- DP-SGD ---------- *)

(* The density at t of the normal law with mean c and standard deviation s. *)
Definition bell (c s t : R) : R :=
  (exp (- ((t - c) / s * ((t - c) / s) / 2)) / (s * fine (\int[leb]_u (exp (- (u * u / 2)) : RR)%:E)%E))%R.

(* R^(m+1): its measure, 0, sums, multiples, squared lengths, and the density at t of N(c, s^2 I). *)
Definition line := [the measurableType _ of salgebraType (@ocitv RR)].
Fixpoint display (m : nat) : measure_display :=
  match m with O => (RR.-ocitv.-measurable).-sigma%mdisp | S m' => measure_prod_display ((RR.-ocitv.-measurable).-sigma%mdisp, display m') end.
Fixpoint vec (m : nat) : measurableType (display m) :=
  match m with O => line | S m' => [the measurableType _ of (line * vec m')%type] end.
Fixpoint volume (m : nat) : {mu : {measure set (vec m) -> \bar RR} | sigma_finite setT mu} :=
  match m return {mu : {measure set (vec m) -> \bar RR} | sigma_finite setT mu} with
  | O => exist _ [the measure _ _ of leb] leb_sigma_finite
  | S m' => exist _ [the measure _ _ of product_measure1 leb (proj2_sig (volume m'))] (prod_sigma_finite leb_sigma_finite (proj2_sig (volume m')))
  end.
Fixpoint zero (m : nat) : vec m := match m return vec m with O => 0%R | S m' => (0%R, zero m') end.
Fixpoint sum (m : nat) : vec m -> vec m -> vec m :=
  match m return vec m -> vec m -> vec m with O => fun a b => (a + b)%R | S m' => fun a b => ((a.1 + b.1)%R, sum a.2 b.2) end.
Fixpoint stretch (m : nat) (a : R) : vec m -> vec m :=
  match m return vec m -> vec m with O => fun v => (a * v)%R | S m' => fun v => ((a * v.1)%R, stretch a v.2) end.
Fixpoint length2 (m : nat) : vec m -> R :=
  match m return vec m -> R with O => fun a => (a * a)%R | S m' => fun a => (a.1 * a.1 + length2 a.2)%R end.
Fixpoint normal (m : nat) (s : R) : vec m -> vec m -> R :=
  match m return vec m -> vec m -> R with O => fun c t => bell c s t | S m' => fun c t => (bell c.1 s t.1 * normal s c.2 t.2)%R end.

(* v if |v| <= C, else v C / |v| *)
Definition factor (C y : R) : R := if Rle_dec y (C * C) then 1%R else (C / sqrt y)%R.
Definition clip (m : nat) (C : R) (v : vec m) : vec m := stretch (factor C (length2 v)) v.

(* The density at t of c + the sum of the vectors drawn + N(0, s^2 I): each of [gs] is drawn with probability q, by a coin of its own. *)
Fixpoint noisy_sum (m : nat) (q s : R) (gs : list (vec m)) (c t : vec m) : R :=
  match gs with nil => normal s c t | (g :: gs')%list => ((1 - q) * noisy_sum q s gs' c t + q * noisy_sum q s gs' (sum c g) t)%R end.

Section training.
Variables (X : Type) (m : nat -> nat) (C : nat -> R) (n : nat -> noise).   (* records; of step k: dimension - 1, clipping norm, rate and multiplier *)
Variables (d0 : measure_display) (T0 : measurableType d0) (rho : {measure set T0 -> \bar RR}).   (* what is drawn at the start: weights, seeds *)

(* What is known after k steps: the start and the k noisy sums. *)
Fixpoint hist_display (k : nat) : measure_display := match k with O => d0 | S k' => measure_prod_display (hist_display k', display (m k')) end.
Fixpoint hist (k : nat) : measurableType (hist_display k) :=
  match k with O => T0 | S k' => [the measurableType _ of (hist k' * vec (m k'))%type] end.
Fixpoint hist_volume (k : nat) : {measure set (hist k) -> \bar RR} :=
  match k return {measure set (hist k) -> \bar RR} with
  | O => rho
  | S k' => [the measure _ _ of product_measure1 (hist_volume k') (proj2_sig (volume (m k')))]
  end.

(* The gradient of a record, at what is known. *)
Variable grad : forall k, hist k -> X -> vec (m k).
Definition measurable_grad : Prop := forall k x, measurable_fun setT (fun h => grad (k := k) h x).
Definition clipped_grad k (h : hist k) (x : X) : vec (m k) := clip (C k) (grad h x).

(* On the data set D: the density of what is known after k steps, and the probability of an event. *)
Fixpoint outputs (D : list X) (k : nat) : hist k -> R :=
  match k return hist k -> R with
  | O => fun _ => 1%R
  | S k' => fun h => (outputs D h.1 * noisy_sum (rate (n k')) (dev (n k') * C k') (List.map (clipped_grad h.1) D) (zero (m k')) h.2)%R
  end.
Definition prob (D : list X) (k : nat) (A : set (hist k)) : \bar RR := (\int[hist_volume k]_(h in A) (outputs D h : RR)%:E)%E.

(* D has the record r. D' is D without it ("add-or-remove"), or with a record in its place whose gradients are all 0 ("zero-out"). *)
Definition neighbours (relation : text) (D D' : list X) : Prop := exists (D1 D2 : list X) (r : X), D = (D1 ++ r :: D2)%list /\
  (relation = codes "add-or-remove" /\ D' = (D1 ++ D2)%list \/
   relation = codes "zero-out" /\ exists z, D' = (D1 ++ z :: D2)%list /\ forall k h, grad (k := k) h z = zero (m k)).
End training.

(* T2. If the program says "proved", then every training of DP-SGD with the stated laws is (epsilon, delta)-private: for any start,
   any gradients that depend measurably on what is known, any clipping norms, and any event B about anything computed from the outputs. *)
Definition dpsgd_is_private : Prop :=
  forall (t : text) (F : file) (bounds : list (option Z)), judge_text t = Judged F bounds Proved ->
  forall (laws : nat -> noise) (order : list nat), states_laws F laws -> states_order F order ->
  forall (X : Type) (m : nat -> nat) (C : nat -> R) (d0 : measure_display) (T0 : measurableType d0) (rho : {measure set T0 -> \bar RR})
    (grad : forall k, hist m T0 k -> X -> vec (m k)), (forall k, 0 < C k)%R -> rho setT = 1%E -> measurable_grad grad ->
  let N := List.length order in
  let P D A := prob C (fun k => laws (List.nth k order O)) rho grad D (k := N) A in
  forall (d : measure_display) (Y : measurableType d) (compute : hist m T0 N -> Y), measurable_fun setT compute ->
  forall B : set Y, measurable B ->
  forall D D' : list X, neighbours grad (f_relation F) D D' ->
  (P D (compute @^-1` B) <= (exp (epsilon F) : RR)%:E * P D' (compute @^-1` B) + (delta F : RR)%:E)%E /\
  (P D' (compute @^-1` B) <= (exp (epsilon F) : RR)%:E * P D (compute @^-1` B) + (delta F : RR)%:E)%E.

(* ---------- The stated laws by themselves ---------- *)

(* One step: P and Q on the line; remove: P with the record, Q without it; add: the reverse. [step n d f] is the integral of f(dQ/dP)
   against P. (1 - e^y x)+ integrates to the privacy curve sup_A P(A) - e^y Q(A). *)
Inductive direction := remove | add.
Definition with_record (n : noise) (t : R) : R := ((1 - rate n) * bell 0 (dev n) t + rate n * bell 1 (dev n) t)%R.
Definition p_of (n : noise) (d : direction) : R -> R := match d with remove => with_record n | add => bell 0 (dev n) end.
Definition q_of (n : noise) (d : direction) : R -> R := match d with remove => bell 0 (dev n) | add => with_record n end.
Definition step (n : noise) (d : direction) (f : R -> R) : R := fine (\int[leb]_t (p_of n d t * f (q_of n d t / p_of n d t) : RR)%R%:E)%E.
Definition excess (y x : R) : R := Rmax 0 (1 - exp y * x)%R.

(* The integral of f(x_1 x_2 ... x_n) over independent steps w = [k_1; ...; k_n]; with f = excess y it is their delta at epsilon = y. *)
Fixpoint composed (step : nat -> (R -> R) -> R) (w : list nat) (f : R -> R) : R :=
  match w with nil => f 1%R | (k :: w')%list => step k (fun x => composed step w' (fun y => f (x * y)%R)) end.

(* T1. If the program says "proved", delta of the composition of the stated laws is at most the stated delta, in both directions. *)
Definition computed_is_true : Prop :=
  forall (t : text) (F : file) (bounds : list (option Z)), judge_text t = Judged F bounds Proved ->
  forall (laws : nat -> noise) (order : list nat), states_laws F laws -> states_order F order ->
  forall d : direction, (composed (fun k => step (laws k) d) order (excess (epsilon F)) <= delta F)%R.
