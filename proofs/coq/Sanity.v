(* The hypotheses of Training.v can be met: a file that is proved, and a training that chooses its gradients by earlier outputs. *)
Require Import String Evr.Setup.
Require Import Evr.Normal Evr.Weighted Evr.Lebesgue Evr.Gaussian Evr.Reader Evr.Judge Evr.Statement Evr.Sampled Evr.Rotation Evr.DpSgd.
Local Open Scope classical_set_scope. Local Open Scope ring_scope.

(* One step in which every record is drawn, noise multiplier 1: (1, 1/4). *)
Definition example : text := Eval vm_compute in codes
  "evr-proof 2 relation add-or-remove epsilon 1/1 delta 1/4 steps 1 1 gaussian(1) directions 1 direction both grid 4 1 1 own 1 0 0 1 0 0 0 0 4 products 0 halves 0 1 end ".
Definition example_file : option file := Eval vm_compute in read example.
Lemma example_proved : match example_file with Some F => judge_text example = Judged F (Some 48%Z :: nil)%list Proved | None => False end.
Proof. by vm_compute. Qed.

(* Records are numbers, the start is a normal number, and the gradient of a record is its distance from the last output. *)
Definition flat : nat -> nat := fun _ => O.
Definition track (k : nat) : hist flat line k -> RR -> vec (flat k) :=
  match k return hist flat line k -> RR -> vec (flat k) with O => fun h x => (x - (h : RR))%R | S k' => fun h x => (x - (h.2 : RR))%R end.
Lemma track_measurable : measurable_grad track.
Proof.
case=> [|k] x.
- by apply: (@measurable_funB _ line RR setT (cst x) (fun h => h)); [exact: measurable_fun_cst | exact: measurable_fun_id].
- have m2 : measurable_fun setT ((fun h : hist flat line k * line => h.2) : _ -> line) by exact: (m_on_snd (@measurable_fun_id _ _ _)).
  by apply: (@measurable_funB _ [the measurableType _ of (hist flat line k * line)%type] RR setT (cst x) (fun h => h.2)); [exact: measurable_fun_cst | exact: m2].
Qed.
Definition start := [the measure _ _ of weighted leb (m_density 0 1) (density_ge0 0 Rlt_0_1)].

(* Its last output, on data sets with and without the record r, where a file proves (epsilon, delta). *)
Theorem tracking_private (t : text) (F : file) (bounds : list (option Z)) (laws : nat -> noise) (order : list nat) :
  judge_text t = Judged F bounds Proved -> states_laws F laws -> states_order F order -> f_relation F = codes "add-or-remove" ->
  let P D A := prob (fun _ => 1%R) (fun k => laws (List.nth k order O)) start track D (k := List.length order) A in
  forall (D1 D2 : list RR) (r : RR) (A : set (hist flat line (List.length order))), measurable A ->
  (P (D1 ++ r :: D2)%list A <= (exp (epsilon F) : RR)%:E * P (D1 ++ D2)%list A + (delta F : RR)%:E)%E.
Proof.
move=> Hj Hl Ho Hr P D1 D2 r A mA.
have S1 : start setT = 1%E by have := @mass_all 0 1 Rlt_0_1.
have [h _] := dpsgd_main Hj Hl Ho (fun _ => Rlt_0_1) S1 track_measurable (@measurable_fun_id _ _ setT) mA
  (ex_intro _ D1 (ex_intro _ D2 (ex_intro _ r (conj erefl (or_introl (conj Hr erefl)))))).
exact: h.
Qed.

(* The two together: one step of that training is (1, 1/4)-private. *)
Definition unit_noise : noise := @Noise 1 1 (conj Rle_0_1 (Rle_refl 1)) Rlt_0_1.
Theorem one_step_private : let P D A := prob (fun _ => 1%R) (fun _ => unit_noise) start track D (k := 1) A in
  forall (D1 D2 : list RR) (r : RR) (A : set (hist flat line 1)), measurable A ->
  (P (D1 ++ r :: D2)%list A <= (exp 1 : RR)%:E * P (D1 ++ D2)%list A + ((1 / 4)%R : RR)%:E)%E.
Proof.
move: example_proved; case E: example_file => [F|//] Hj P D1 D2 r A mA; move: E Hj => [<-] Hj.
have Hl : states_laws _ (fun _ => unit_noise).
  move=> [|k] Hk; last by move: Hk; rewrite /=; lia.
  by eexists; split; [vm_compute; reflexivity | rewrite /=; split; field].
have Ho : states_order _ (O :: nil)%list by case=> [//|k]; case: k.
have := tracking_private Hj Hl Ho erefl D1 D2 r mA.
by rewrite /epsilon /delta /= /Rdiv Rinv_1 Rmult_1_r.
Qed.
