(* The normal law in one real variable: G(x) = integral of e^(-t^2/2) from 0 to x, its series with a bound of the rest, its limit. *)
Require Import Reals Lra Lia.
Require Export Evr.Primitive.
Require Evr.Powers.
Open Scope R_scope.

Lemma lim_eq f x l l' : derivable_pt_lim f x l -> l = l' -> derivable_pt_lim f x l'.
Proof. intros H <-. exact H. Qed.
Ltac der E := apply (lim_eq _ _ E); [|try (unfold Rdiv; ring)].

Lemma gauss_pos t : 0 < gauss t.
Proof. apply exp_pos. Qed.
Lemma gauss_le1 t : gauss t <= 1.
Proof.
  unfold gauss. rewrite <- exp_0. destruct (Req_dec t 0) as [->|H]; [right; f_equal; field|].
  left. apply exp_increasing. assert (0 < t * t) by nra. lra.
Qed.
Lemma gauss_even t : gauss (- t) = gauss t.
Proof. unfold gauss. f_equal. field. Qed.
Lemma halfsq_derive t : derivable_pt_lim (fun t => t * t / 2) t t.
Proof.
  der ((1 * t + t * 1) * / 2 + t * t * 0). 2: field. apply (derivable_pt_lim_mult (fun t => t * t) (fun _ => / 2)).
  - apply (derivable_pt_lim_mult id id); apply derivable_pt_lim_id.
  - apply derivable_pt_lim_const.
Qed.
Lemma gauss_derive t : derivable_pt_lim gauss t (- t * gauss t).
Proof.
  der (exp (- (t * t / 2)) * - t). 2: unfold gauss; ring. apply (derivable_pt_lim_comp (fun t => - (t * t / 2)) exp).
  - apply (derivable_pt_lim_opp (fun t => t * t / 2)). apply halfsq_derive.
  - apply derivable_pt_lim_exp.
Qed.

(* If f' <= h' between a and b, then f grows by no more than h. *)
Lemma compare f h f' h' a b : a <= b ->
  (forall t, a <= t <= b -> derivable_pt_lim f t (f' t)) -> (forall t, a <= t <= b -> derivable_pt_lim h t (h' t)) ->
  (forall t, a <= t <= b -> f' t <= h' t) -> f b - f a <= h b - h a.
Proof.
  intros [Hab|<-] Hf Hh Hle; [|lra].
  destruct (MVT_cor2 (fun t => h t - f t) (fun t => h' t - f' t) a b Hab) as [c [E Hc]].
  - intros t Ht. apply (derivable_pt_lim_minus h f t); auto.
  - assert (f' c <= h' c) by (apply Hle; lra). assert (0 <= (h' c - f' c) * (b - a)) by (apply Rmult_le_pos; lra). lra.
Qed.

Lemma G_incr x y : x <= y -> G x <= G y.
Proof.
  intros H. cut (0 - 0 <= G y - G x); [lra|]. apply (compare (fun _ => 0) G (fun _ => 0) gauss x y H); intros.
  - apply derivable_pt_lim_const. - apply G_derive. - left; apply gauss_pos.
Qed.
Lemma G_le x y : x <= y -> G y - G x <= y - x.
Proof.
  intros H. apply (compare G (fun t => t) gauss (fun _ => 1) x y H); intros.
  - apply G_derive. - apply derivable_pt_lim_id. - apply gauss_le1.
Qed.
Lemma G_odd x : G (- x) = - G x.
Proof.
  assert (D : forall t, derivable_pt_lim (fun t => - G (- t)) t (gauss t)).
  { intros t. der (- (gauss (- t) * -1)). 2: rewrite gauss_even; ring.
    apply (derivable_pt_lim_opp (fun t => G (- t))). apply (derivable_pt_lim_comp (fun t => - t) G).
    apply (derivable_pt_lim_opp id). apply derivable_pt_lim_id. apply G_derive. }
  assert (E0 : G (- 0) = 0) by (rewrite Ropp_0; apply G_0). destruct (Rle_dec 0 x) as [H|H].
  - assert (G x - G 0 <= - G (- x) - - G (- 0)) by (apply (compare G (fun t => - G (- t)) gauss gauss 0 x H); intros; auto using G_derive, Rle_refl).
    assert (- G (- x) - - G (- 0) <= G x - G 0) by (apply (compare (fun t => - G (- t)) G gauss gauss 0 x H); intros; auto using G_derive, Rle_refl).
    rewrite E0, G_0 in *. lra.
  - assert (H' : x <= 0) by lra.
    assert (G 0 - G x <= - G (- 0) - - G (- x)) by (apply (compare G (fun t => - G (- t)) gauss gauss x 0 H'); intros; auto using G_derive, Rle_refl).
    assert (- G (- 0) - - G (- x) <= G 0 - G x) by (apply (compare (fun t => - G (- t)) G gauss gauss x 0 H'); intros; auto using G_derive, Rle_refl).
    rewrite E0, G_0 in *. lra.
Qed.
Lemma G_nonneg x : 0 <= x -> 0 <= G x.
Proof. intros. rewrite <- G_0. apply G_incr; auto. Qed.

(* The tail. *)
Lemma tail X b : 0 < X -> X <= b -> G b - G X <= gauss X / X.
Proof.
  intros HX Hb. assert (C : G b - G X <= - (gauss b / b) - - (gauss X / X)).
  { apply (compare G (fun t => - (gauss t / t)) gauss (fun t => gauss t * (1 + / t * / t)) X b Hb); intros t Ht.
    - apply G_derive.
    - der (- ((- t * gauss t * t - 1 * gauss t) / Rsqr t)). 2: unfold Rsqr; field; lra.
      apply (derivable_pt_lim_opp (fun t => gauss t / t)). apply (derivable_pt_lim_div gauss id).
      apply gauss_derive. apply derivable_pt_lim_id. unfold id. lra.
    - pose proof (gauss_pos t). assert (0 <= / t * / t) by (apply Rle_0_sqr). nra. }
  assert (0 < gauss b / b) by (apply Rmult_lt_0_compat; [apply gauss_pos | apply Rinv_0_lt_compat; lra]). lra.
Qed.

Lemma G_bounded : bound (fun y => exists x, y = G x).
Proof.
  exists (G 1 + gauss 1 / 1). intros y [x ->]. pose proof (gauss_pos 1). destruct (Rle_dec x 1) as [H1|H1].
  - pose proof (G_incr x 1 H1). lra.
  - pose proof (tail 1 x ltac:(lra) ltac:(lra)). lra.
Qed.
Definition half_Z : R := proj1_sig (completeness _ G_bounded (ex_intro _ (G 0) (ex_intro _ 0 eq_refl))).
Lemma half_Z_lub : is_lub (fun y => exists x, y = G x) half_Z.
Proof. unfold half_Z. destruct (completeness _ _ _); auto. Qed.
Lemma half_Z_above x : G x <= half_Z.
Proof. apply half_Z_lub. exists x; auto. Qed.
Lemma half_Z_least B : (forall x, 0 <= x -> G x <= B) -> half_Z <= B.
Proof.
  intros H. apply half_Z_lub. intros y [x ->].
  apply Rle_trans with (G (Rmax 0 x)); [apply G_incr, Rmax_r | apply H, Rmax_l].
Qed.
Lemma half_Z_below X : 0 < X -> half_Z <= G X + gauss X / X.
Proof.
  intros HX. apply half_Z_least. intros x Hx.
  assert (0 < gauss X / X) by (apply Rmult_lt_0_compat; [apply gauss_pos | apply Rinv_0_lt_compat; lra]).
  destruct (Rle_dec x X) as [H1|H1].
  - pose proof (G_incr x X H1). lra.
  - pose proof (tail X x HX ltac:(lra)). lra.
Qed.
Lemma half_Z_pos : 0 < half_Z.
Proof.
  pose proof (half_Z_above 1) as H1. assert (exp (- (1/2)) * 1 - exp (- (1/2)) * 0 <= G 1 - G 0).
  { apply (compare (fun t => exp (- (1/2)) * t) G (fun _ => exp (- (1/2))) gauss 0 1 ltac:(lra)); intros t Ht.
    - der (0 * t + exp (- (1/2)) * 1). apply (derivable_pt_lim_mult (fun _ => exp (- (1/2))) id).
      apply derivable_pt_lim_const. apply derivable_pt_lim_id.
    - apply G_derive.
    - unfold gauss. destruct (Req_dec t 1) as [->|]; [right; f_equal; field|]. left. apply exp_increasing. nra. }
  pose proof (exp_pos (- (1/2))). rewrite G_0 in *. lra.
Qed.

(* Phi, by symmetry 1/2 at 0. *)
Definition Phi (x : R) : R := 1 / 2 + G x / (2 * half_Z).
Lemma Phi_incr x y : x <= y -> Phi x <= Phi y.
Proof.
  intros H. unfold Phi. pose proof half_Z_pos. apply Rplus_le_compat_l, Rmult_le_compat_r.
  - left. apply Rinv_0_lt_compat. lra. - apply G_incr; auto.
Qed.
Lemma Phi_opp x : Phi (- x) = 1 - Phi x.
Proof. unfold Phi. rewrite G_odd. pose proof half_Z_pos. field. lra. Qed.
Lemma Phi_nonneg x : 0 <= Phi x.
Proof.
  pose proof half_Z_pos. pose proof (half_Z_above (- x)). rewrite G_odd in *.
  unfold Phi. assert (I : 0 < / (2 * half_Z)) by (apply Rinv_0_lt_compat; lra).
  replace (1 / 2 + G x / (2 * half_Z)) with ((half_Z + G x) * / (2 * half_Z)) by (field; lra). apply Rmult_le_pos; lra.
Qed.
Lemma Phi_le1 x : Phi x <= 1.
Proof. pose proof (Phi_nonneg (- x)). rewrite Phi_opp in *. lra. Qed.

(* The series of e^(-u), and of G. *)
Fixpoint eterm (u : R) (k : nat) : R := match k with O => 1 | S k' => eterm u k' * u / INR k end.
Fixpoint esum (u : R) (n : nat) : R := match n with O => 0 | S n' => esum u n' + (-1) ^ n' * eterm u n' end.
Fixpoint gsum (x : R) (n : nat) : R :=
  match n with O => 0 | S n' => gsum x n' + (-1) ^ n' * (x * eterm (x * x / 2) n' / INR (2 * n' + 1)) end.

Lemma eterm_S u k : eterm u (S k) = eterm u k * u / INR (S k).
Proof. reflexivity. Qed.
Lemma eterm_pos u k : 0 <= u -> 0 <= eterm u k.
Proof.
  intros Hu. induction k; [simpl; lra|]. rewrite eterm_S.
  apply Rmult_le_pos; [apply Rmult_le_pos; auto|]. left. apply Rinv_0_lt_compat, lt_0_INR. lia.
Qed.
Lemma eterm_derive u k : derivable_pt_lim (fun u => eterm u (S k)) u (eterm u k).
Proof.
  induction k.
  - simpl. der ((0 * u + 1 * 1) * / 1 + 1 * u * 0). 2: field.
    apply (derivable_pt_lim_mult (fun u => 1 * u) (fun _ => / 1)); [|apply derivable_pt_lim_const].
    apply (derivable_pt_lim_mult (fun _ => 1) id). apply derivable_pt_lim_const. apply derivable_pt_lim_id.
  - assert (P : 0 < INR (S k)) by (apply lt_0_INR; lia).
    der ((eterm u k * u + eterm u (S k) * 1) * / INR (S (S k)) + eterm u (S k) * u * 0).
    2: rewrite (S_INR (S k)), !eterm_S; field; lra.
    apply (derivable_pt_lim_mult (fun u => eterm u (S k) * u) (fun _ => / INR (S (S k)))); [|apply derivable_pt_lim_const].
    apply (derivable_pt_lim_mult (fun u => eterm u (S k)) id). apply IHk. apply derivable_pt_lim_id.
Qed.
Lemma esum_derive u n : derivable_pt_lim (fun u => esum u (S n)) u (- esum u n).
Proof.
  induction n.
  - simpl. der (0 + 0). apply (derivable_pt_lim_plus (fun _ => 0) (fun _ => 1 * 1)); apply derivable_pt_lim_const.
  - der (- esum u n + (-1) ^ S n * eterm u n). 2: simpl; ring.
    apply (derivable_pt_lim_plus (fun u => esum u (S n)) (fun u => (-1) ^ S n * eterm u (S n))). apply IHn.
    apply (derivable_pt_lim_scal (fun u => eterm u (S n))). apply eterm_derive.
Qed.
Lemma esum_0 n : esum 0 (S n) = 1.
Proof.
  induction n; [simpl; ring|]. change (esum 0 (S (S n))) with (esum 0 (S n) + (-1) ^ S n * (eterm 0 n * 0 / INR (S n))).
  rewrite IHn. unfold Rdiv. ring.
Qed.

Lemma exp_series n : forall u, 0 <= u -> - eterm u n <= exp (- u) - esum u n <= eterm u n.
Proof.
  induction n; intros u Hu.
  - simpl. pose proof (exp_pos (- u)). split; [lra|].
    rewrite <- exp_0. destruct (Req_dec u 0) as [->|]; [rewrite Ropp_0; lra|].
    assert (exp (- u) < exp 0) by (apply exp_increasing; lra). lra.
  - assert (D1 : forall t, derivable_pt_lim (fun u => exp (- u) - esum u (S n)) t (- (exp (- t) - esum t n))).
    { intros t. der (exp (- t) * -1 - - esum t n).
      apply (derivable_pt_lim_minus (fun u => exp (- u)) (fun u => esum u (S n))); [|apply esum_derive].
      apply (derivable_pt_lim_comp (fun u => - u) exp). apply (derivable_pt_lim_opp id). apply derivable_pt_lim_id. apply derivable_pt_lim_exp. }
    assert (E0 : exp (- 0) - esum 0 (S n) = 0) by (rewrite esum_0, Ropp_0, exp_0; ring).
    assert (T0 : eterm 0 (S n) = 0) by (rewrite eterm_S; unfold Rdiv; ring).
    assert (C1 : exp (- u) - esum u (S n) - (exp (- 0) - esum 0 (S n)) <= eterm u (S n) - eterm 0 (S n)).
    { apply (compare (fun u => exp (- u) - esum u (S n)) (fun u => eterm u (S n)) (fun t => - (exp (- t) - esum t n)) (fun u => eterm u n) 0 u Hu); intros t Ht; auto.
      - apply eterm_derive. - pose proof (IHn t ltac:(lra)). lra. }
    assert (C2 : - eterm u (S n) - - eterm 0 (S n) <= exp (- u) - esum u (S n) - (exp (- 0) - esum 0 (S n))).
    { apply (compare (fun u => - eterm u (S n)) (fun u => exp (- u) - esum u (S n)) (fun t => - eterm t n) (fun t => - (exp (- t) - esum t n)) 0 u Hu); intros t Ht; auto.
      - apply (derivable_pt_lim_opp (fun u => eterm u (S n))). apply eterm_derive. - pose proof (IHn t ltac:(lra)). lra. }
    rewrite E0, T0 in *. lra.
Qed.

Lemma eterm_comp x n : derivable_pt_lim (fun x => eterm (x * x / 2) (S n)) x (eterm (x * x / 2) n * x).
Proof.
  apply (derivable_pt_lim_comp (fun x => x * x / 2) (fun u => eterm u (S n))). apply halfsq_derive. apply eterm_derive.
Qed.
Lemma gterm_derive x n : derivable_pt_lim (fun x => x * eterm (x * x / 2) n / INR (2 * n + 1)) x (eterm (x * x / 2) n).
Proof.
  destruct n.
  - simpl. der ((1 * 1 + x * 0) * / 1 + x * 1 * 0). 2: field.
    apply (derivable_pt_lim_mult (fun x => x * 1) (fun _ => / 1)); [|apply derivable_pt_lim_const].
    apply (derivable_pt_lim_mult id (fun _ => 1)). apply derivable_pt_lim_id. apply derivable_pt_lim_const.
  - assert (P : 0 < INR (S n)) by (apply lt_0_INR; lia).
    assert (E : INR (2 * S n + 1) = 2 * INR (S n) + 1) by (rewrite plus_INR, mult_INR; simpl INR; ring).
    der ((1 * eterm (x * x / 2) (S n) + x * (eterm (x * x / 2) n * x)) * / INR (2 * S n + 1) + x * eterm (x * x / 2) (S n) * 0).
    2: rewrite E, eterm_S; field; lra.
    apply (derivable_pt_lim_mult (fun x => x * eterm (x * x / 2) (S n)) (fun _ => / INR (2 * S n + 1))); [|apply derivable_pt_lim_const].
    apply (derivable_pt_lim_mult id (fun x => eterm (x * x / 2) (S n))). apply derivable_pt_lim_id. apply eterm_comp.
Qed.
Lemma gsum_derive x n : derivable_pt_lim (fun x => gsum x n) x (esum (x * x / 2) n).
Proof.
  induction n.
  - apply derivable_pt_lim_const.
  - apply (derivable_pt_lim_plus (fun x => gsum x n)); auto.
    apply (derivable_pt_lim_scal (fun x => x * eterm (x * x / 2) n / INR (2 * n + 1))). apply gterm_derive.
Qed.
Lemma gsum_0 n : gsum 0 n = 0.
Proof. induction n; [auto|]. change (gsum 0 n + (-1) ^ n * (0 * eterm (0 * 0 / 2) n / INR (2 * n + 1)) = 0). rewrite IHn. unfold Rdiv. ring. Qed.

Definition gterm (x : R) (n : nat) : R := x * eterm (x * x / 2) n / INR (2 * n + 1).
Theorem G_series n x : 0 <= x -> - gterm x n <= G x - gsum x n <= gterm x n.
Proof.
  intros Hx. assert (D1 : forall t, derivable_pt_lim (fun x => G x - gsum x n) t (gauss t - esum (t * t / 2) n)).
  { intros t. apply (derivable_pt_lim_minus G (fun x => gsum x n)). apply G_derive. apply gsum_derive. }
  assert (Z : gterm 0 n = 0) by (unfold gterm, Rdiv; ring).
  assert (B : forall t, - eterm (t * t / 2) n <= gauss t - esum (t * t / 2) n <= eterm (t * t / 2) n).
  { intros t. apply exp_series. pose proof (Rle_0_sqr t). unfold Rsqr in *. lra. }
  assert (C1 : G x - gsum x n - (G 0 - gsum 0 n) <= gterm x n - gterm 0 n).
  { apply (compare (fun x => G x - gsum x n) (fun x => gterm x n) (fun t => gauss t - esum (t * t / 2) n) (fun t => eterm (t * t / 2) n) 0 x Hx); intros t Ht; auto.
    - apply gterm_derive. - apply (B t). }
  assert (C2 : - gterm x n - - gterm 0 n <= G x - gsum x n - (G 0 - gsum 0 n)).
  { apply (compare (fun x => - gterm x n) (fun x => G x - gsum x n) (fun t => - eterm (t * t / 2) n) (fun t => gauss t - esum (t * t / 2) n) 0 x Hx); intros t Ht; auto.
    - apply (derivable_pt_lim_opp (fun x => gterm x n)). apply gterm_derive. - apply (B t). }
  rewrite Z, G_0, gsum_0 in *. lra.
Qed.

Lemma Phi_sup B : (forall x, Phi x <= B) -> 1 <= B.
Proof.
  intros H. pose proof half_Z_pos as P. assert (half_Z <= (B - 1 / 2) * (2 * half_Z)).
  { apply half_Z_least. intros x _. specialize (H x). unfold Phi in H.
    replace (G x) with (G x / (2 * half_Z) * (2 * half_Z)) by (field; lra). apply Rmult_le_compat_r; lra. }
  apply Rmult_le_reg_r with (2 * half_Z); lra.
Qed.
Lemma Phi_inf B : (forall x, B <= Phi x) -> B <= 0.
Proof. intros H. cut (1 <= 1 - B); [lra|]. apply Phi_sup. intros x. specialize (H (- x)). rewrite Phi_opp in H. lra. Qed.

(* gauss is Lipschitz *)
Lemma gauss_slope t : -1 <= - t * gauss t <= 1.
Proof.
  assert (H : Rabs t * gauss t <= 1).
  { assert (E : Rabs t <= exp (t * t / 2)).
    { apply Rle_trans with (1 + t * t / 2); [|apply Evr.Powers.exp_ge].
      assert (t * t = Rabs t * Rabs t) as -> by (rewrite <- Rabs_mult, Rabs_pos_eq; nra). pose proof (Rabs_pos t). nra. }
    unfold gauss. rewrite exp_Ropp. pose proof (exp_pos (t * t / 2)).
    apply Rmult_le_reg_r with (exp (t * t / 2)); auto. rewrite Rmult_assoc, Rinv_l by lra. lra. }
  pose proof (gauss_pos t). assert (Rabs (- t * gauss t) <= 1) by (rewrite Rabs_mult, Rabs_Ropp, (Rabs_pos_eq (gauss t)); lra).
  pose proof (Rle_abs (- t * gauss t)). pose proof (Rle_abs (- (- t * gauss t))) as H3. rewrite Rabs_Ropp in H3. lra.
Qed.
Lemma gauss_lipschitz x y : Rabs (gauss x - gauss y) <= Rabs (x - y).
Proof.
  assert (H : forall x y, x <= y -> Rabs (gauss y - gauss x) <= y - x).
  { clear. intros x y Hxy. apply Rabs_le. split.
    - cut (- y - - x <= gauss y - gauss x); [lra|].
      apply (compare (fun t => - t) gauss (fun _ => -1) (fun t => - t * gauss t) x y Hxy); intros t _.
      + apply (derivable_pt_lim_opp id). apply derivable_pt_lim_id. + apply gauss_derive. + apply gauss_slope.
    - apply (compare gauss (fun t => t) (fun t => - t * gauss t) (fun _ => 1) x y Hxy); intros t _.
      + apply gauss_derive. + apply derivable_pt_lim_id. + apply gauss_slope. }
  destruct (Rle_dec x y).
  - rewrite Rabs_minus_sym, (Rabs_minus_sym x y), (Rabs_pos_eq (y - x)) by lra. apply H; auto.
  - rewrite (Rabs_pos_eq (x - y)) by lra. apply H; lra.
Qed.

(* the normal density of mean c and deviation s *)
Definition density (c s t : R) : R := gauss ((t - c) / s) / (s * (2 * half_Z)).
Section density.
  Variables c s : R.
  Hypothesis Hs : 0 < s.
  Let Zp : 0 < s * (2 * half_Z).
  Proof. pose proof half_Z_pos. apply Rmult_lt_0_compat; lra. Qed.
  Lemma density_pos t : 0 < density c s t.
  Proof. apply Rmult_lt_0_compat; [apply gauss_pos | apply Rinv_0_lt_compat, Zp]. Qed.
  Lemma affine_derive t : derivable_pt_lim (fun t => (t - c) / s) t (/ s).
  Proof.
    der ((1 - 0) * / s + (t - c) * 0).
    apply (derivable_pt_lim_mult (fun t => t - c) (fun _ => / s)); [|apply derivable_pt_lim_const].
    apply (derivable_pt_lim_minus id (fun _ => c)). apply derivable_pt_lim_id. apply derivable_pt_lim_const.
  Qed.
  Lemma density_lipschitz x y : Rabs (density c s x - density c s y) <= / (s * s * (2 * half_Z)) * Rabs (x - y).
  Proof.
    pose proof Zp. pose proof half_Z_pos. pose proof (gauss_lipschitz ((x - c) / s) ((y - c) / s)) as L. unfold density.
    replace (gauss ((x - c) / s) / (s * (2 * half_Z)) - gauss ((y - c) / s) / (s * (2 * half_Z)))
      with ((gauss ((x - c) / s) - gauss ((y - c) / s)) * / (s * (2 * half_Z))) by (field; lra).
    replace ((x - c) / s - (y - c) / s) with ((x - y) * / s) in L by (field; lra).
    rewrite Rabs_mult, (Rabs_pos_eq (/ s)) in L by (left; apply Rinv_0_lt_compat; lra).
    rewrite Rabs_mult, (Rabs_pos_eq (/ (s * (2 * half_Z)))) by (left; apply Rinv_0_lt_compat; lra).
    replace (/ (s * s * (2 * half_Z)) * Rabs (x - y)) with (Rabs (x - y) * / s * / (s * (2 * half_Z))) by (field; lra).
    apply Rmult_le_compat_r; auto. left. apply Rinv_0_lt_compat. lra.
  Qed.
  Lemma density_primitive t : derivable_pt_lim (fun t => Phi ((t - c) / s)) t (density c s t).
  Proof.
    pose proof half_Z_pos. unfold Phi, density.
    der (0 + (gauss ((t - c) / s) * / s * / (2 * half_Z) + G ((t - c) / s) * 0)). 2: field; lra.
    apply (derivable_pt_lim_plus (fun _ => 1 / 2) (fun t => G ((t - c) / s) / (2 * half_Z))); [apply derivable_pt_lim_const|].
    apply (derivable_pt_lim_mult (fun t => G ((t - c) / s)) (fun _ => / (2 * half_Z))); [|apply derivable_pt_lim_const].
    apply (derivable_pt_lim_comp (fun t => (t - c) / s) G). apply affine_derive. apply G_derive.
  Qed.
  Lemma density_cont t : continuity_pt (density c s) t.
  Proof.
    apply derivable_continuous_pt. pose proof half_Z_pos. exists (- ((t - c) / s) * gauss ((t - c) / s) * / s * / (s * (2 * half_Z))).
    change (derivable_pt_lim (fun t => gauss ((t - c) / s) / (s * (2 * half_Z))) t (- ((t - c) / s) * gauss ((t - c) / s) * / s * / (s * (2 * half_Z)))).
    der (- ((t - c) / s) * gauss ((t - c) / s) * / s * / (s * (2 * half_Z)) + gauss ((t - c) / s) * 0).
    apply (derivable_pt_lim_mult (fun t => gauss ((t - c) / s)) (fun _ => / (s * (2 * half_Z)))); [|apply derivable_pt_lim_const].
    apply (derivable_pt_lim_comp (fun t => (t - c) / s) gauss). apply affine_derive. apply gauss_derive.
  Qed.
End density.
(* the ratio of two of them *)
Lemma density_ratio s t : 0 < s -> density 1 s t = exp ((t - 1 / 2) / (s * s)) * density 0 s t.
Proof.
  intros Hs. pose proof half_Z_pos.
  assert (E : gauss ((t - 1) / s) = exp ((t - 1 / 2) / (s * s)) * gauss ((t - 0) / s)).
  { unfold gauss. rewrite <- exp_plus. f_equal. field. lra. }
  unfold density. rewrite E. unfold Rdiv. ring.
Qed.
