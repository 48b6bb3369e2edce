(* S3: one step on a grid of any spacing, from its curve ("connect the dots"). *)
Require Import Reals ZArith List Lra Lia Evr.Order Evr.Integers Evr.Masses.
Import ListNotations.
Open Scope R_scope.

Lemma K_part t : 0 <= t -> K (fun x => Rmax 0 (t - x)).
Proof.
  intros Ht; constructor; intros.
  - apply Rmax_l.
  - apply Rle_max_compat_l. lra.
  - pose proof (Rmax_l 0 (t - x)). pose proof (Rmax_r 0 (t - x)).
    pose proof (Rmax_l 0 (t - y)). pose proof (Rmax_r 0 (t - y)).
    apply Rmax_lub.
    + apply Rplus_le_le_0_compat; apply Rmult_le_pos; lra.
    + assert (t0 * (t - x) <= t0 * Rmax 0 (t - x)) by (apply Rmult_le_compat_l; lra).
      assert ((1 - t0) * (t - y) <= (1 - t0) * Rmax 0 (t - y)) by (apply Rmult_le_compat_l; lra). lra.
Qed.

Lemma K_min f t : K f -> 0 <= t -> K (fun x => f (Rmin x t)).
Proof.
  intros Kf Ht. constructor.
  - intros x Hx. apply (K_pos _ Kf). apply Rmin_glb; auto.
  - intros x y Hx Hxy. apply (K_dec _ Kf). apply Rmin_glb; auto. apply Rle_min_compat_r; auto.
  - intros x y u Hx Hy Hu.
    assert (Hc := K_cvx _ Kf (Rmin x t) (Rmin y t) u (Rmin_glb _ _ _ Hx Ht) (Rmin_glb _ _ _ Hy Ht) Hu).
    eapply Rle_trans; [|apply Hc]. apply (K_dec _ Kf).
    + apply Rplus_le_le_0_compat; apply Rmult_le_pos; try lra; apply Rmin_glb; auto.
    + pose proof (Rmin_l x t). pose proof (Rmin_r x t). pose proof (Rmin_l y t). pose proof (Rmin_r y t).
      assert (u * Rmin x t <= u * x) by (apply Rmult_le_compat_l; lra).
      assert (u * Rmin x t <= u * t) by (apply Rmult_le_compat_l; lra).
      assert ((1 - u) * Rmin y t <= (1 - u) * y) by (apply Rmult_le_compat_l; lra).
      assert ((1 - u) * Rmin y t <= (1 - u) * t) by (apply Rmult_le_compat_l; lra).
      apply Rmin_glb; lra.
Qed.

(* sum of m_j f (x_j) *)
Fixpoint sf (m x : list R) (f : R -> R) : R :=
  match m, x with a :: m', y :: x' => a * f y + sf m' x' f | _, _ => 0 end.

Section S3.
  Variable mu : (R -> R) -> R.
  Hypothesis L : law mu.

  Definition P (t : R) : R := mu (fun x => Rmax 0 (t - x)).
  Definition slope (a b : R) : R := (P a - P b) / (a - b).

  Definition head (xs : list R) : R := hd 0 xs.
  (* x_0 > x_1 > ... > 0 *)
  Fixpoint falling (xs : list R) : Prop :=
    match xs with [] => True | x :: xs' => head xs' < x /\ falling xs' end.

  Lemma head_nonneg xs : falling xs -> 0 <= head xs.
  Proof. induction xs; simpl; intros; [lra|]. destruct H. apply IHxs in H0. unfold head in *. simpl. lra. Qed.

  (* masses at the places xs, of what is beyond (g) *)
  Fixpoint ms (g : R) (xs : list R) : list R :=
    match xs with [] => [] | x :: xs' => let g' := slope x (head xs') in (g - g') :: ms g' xs' end.
  Fixpoint minf (g : R) (xs : list R) : R :=
    match xs with [] => g | x :: xs' => minf (slope x (head xs')) xs' end.

  Fixpoint rise (xs : list R) (f : R -> R) : R :=
    match xs with [] => 0 | x :: xs' => slope x (head xs') * (f (head xs') - f x) + rise xs' f end.

  Lemma abel f xs : forall g, sf (ms g xs) xs f + minf g xs * f 0 = g * f (head xs) + rise xs f.
  Proof.
    induction xs; intros; cbn [sf ms minf rise]; [unfold head; simpl; ring|].
    assert (E := IHxs (slope a (head xs))). change (head (a :: xs)) with a. lra.
  Qed.

  Lemma step_point f a b x : K f -> 0 <= b < a -> 0 <= x ->
    f (Rmin x a) + (f b - f a) + (f b - f a) / (a - b) * Rmax 0 (b - x) <=
    f (Rmin x b) + (f b - f a) / (a - b) * Rmax 0 (a - x).
  Proof.
    intros Kf Hab Hx.
    destruct (Rle_lt_dec x b).
    - rewrite !Rmin_left, !Rmax_right by lra. right. field. lra.
    - rewrite (Rmax_left 0 (b - x)), (Rmin_right x b) by lra.
      destruct (Rle_lt_dec x a).
      + rewrite Rmin_left, Rmax_right by lra.
        set (t := (a - x) / (a - b)).
        assert (Ht : t * (a - b) = a - x) by (unfold t; field; lra).
        assert (0 <= t <= 1).
        { split; [apply Rmult_le_pos; [lra | left; apply Rinv_0_lt_compat; lra]|].
          apply Rmult_le_reg_r with (a - b); lra. }
        assert (Hc := K_cvx _ Kf b a t ltac:(lra) ltac:(lra) H).
        replace (t * b + (1 - t) * a) with x in Hc by lra.
        replace ((f b - f a) / (a - b) * (a - x)) with ((f b - f a) * t) by (unfold t; field; lra). lra.
      + rewrite Rmin_right, Rmax_left by lra. lra.
  Qed.

  Lemma one_more f a b : K f -> 0 <= b < a ->
    mu (fun x => f (Rmin x a)) <= mu (fun x => f (Rmin x b)) - (f b - f a) + slope a b * (f b - f a).
  Proof.
    intros Kf Hab. set (c := (f b - f a) / (a - b)).
    assert (Hfab : 0 <= f b - f a) by (assert (f a <= f b) by (apply (K_dec _ Kf); lra); lra).
    assert (Hc : 0 <= c) by (apply Rmult_le_pos; auto; left; apply Rinv_0_lt_compat; lra).
    assert (Ka := K_min f a Kf ltac:(lra)). assert (Kb := K_min f b Kf ltac:(lra)).
    assert (Pa := K_scal c _ Hc (K_part a ltac:(lra))). assert (Pb := K_scal c _ Hc (K_part b ltac:(lra))).
    assert (K1 := K_const _ Hfab).
    assert (M := law_mono _ L _ _ (K_plus _ _ (K_plus _ _ Ka K1) Pb) (K_plus _ _ Kb Pa)
      (fun x Hx => step_point f a b x Kf Hab Hx)).
    rewrite !(law_add _ L) in M; auto; try (apply K_plus; auto).
    rewrite !(law_scal _ L) in M by (auto; apply K_part; lra).
    replace (mu (fun _ => f b - f a)) with (f b - f a) in M.
    2:{ transitivity ((f b - f a) * mu (fun _ => 1)); [rewrite (law_one _ L); ring|].
        rewrite <- (law_scal _ L); auto; [|apply K_const; lra].
        apply law_ext; auto. apply K_scal; auto. apply K_const; lra. intros; ring. }
    fold (P a) in M. fold (P b) in M.
    replace (slope a b * (f b - f a)) with (c * P a - c * P b) by (unfold slope, c; field; lra). lra.
  Qed.

  Lemma dots f xs : K f -> falling xs -> mu (fun x => f (Rmin x (head xs))) <= f (head xs) + rise xs f.
  Proof.
    intros Kf. induction xs; intros Hf.
    - unfold head; simpl. rewrite Rplus_0_r.
      assert (H0 : 0 <= f 0) by (apply (K_pos _ Kf); lra).
      right. transitivity (f 0 * mu (fun _ => 1)); [|rewrite (law_one _ L); ring].
      rewrite <- (law_scal _ L); auto; [|apply K_const; lra].
      apply law_ext; auto.
      + apply K_min; auto; lra.
      + apply K_scal; auto. apply K_const; lra.
      + intros x Hx. rewrite Rmin_right; auto. ring.
    - destruct Hf as [Ha Hf]. specialize (IHxs Hf). cbn [rise].
      pose proof (head_nonneg _ Hf).
      assert (M := one_more f a (head xs) Kf ltac:(lra)).
      change (head (a :: xs)) with a. lra.
  Qed.

  (* the proposition of S3 *)
  Theorem connect_the_dots xs f : K f -> falling xs -> xs <> [] ->
    mu f <= sf (ms 1 xs) xs f + minf 1 xs * f 0.
  Proof.
    intros Kf Hf Hne. rewrite abel, Rmult_1_l. eapply Rle_trans; [|apply dots; auto].
    pose proof (head_nonneg _ Hf) as H0.
    apply (law_mono _ L); auto. apply K_min; auto.
    intros x Hx. apply (K_dec _ Kf). apply Rmin_glb; auto. apply Rmin_l.
  Qed.

  Lemma masses_total xs : forall g, rsum (ms g xs) + minf g xs = g.
  Proof. induction xs; intros; simpl; [unfold rsum; simpl; lra|]. specialize (IHxs (slope a (head xs))). lra. Qed.

  (* P is convex, its slopes are between 0 and 1 *)
  Lemma P_mono a b : 0 <= b <= a -> P b <= P a.
  Proof.
    intros. apply (law_mono _ L); try (apply K_part; lra). intros. apply Rle_max_compat_l; lra.
  Qed.
  Lemma slope_nonneg a b : 0 <= b < a -> 0 <= slope a b.
  Proof.
    intros. assert (P b <= P a) by (apply P_mono; lra).
    apply Rmult_le_pos; [lra | left; apply Rinv_0_lt_compat; lra].
  Qed.
  Lemma slope_le_1 a b : 0 <= b < a -> slope a b <= 1.
  Proof.
    intros H. apply Rmult_le_reg_r with (a - b); [lra|].
    replace (slope a b * (a - b)) with (P a - P b) by (unfold slope; field; lra). rewrite Rmult_1_l.
    assert (Kc := K_const (a - b) ltac:(lra)).
    assert (M : P a <= mu (fun x => Rmax 0 (b - x) + (a - b))).
    { apply (law_mono _ L); try (apply K_part; lra). apply K_plus; auto. apply K_part; lra.
      intros x Hx. pose proof (Rmax_l 0 (b - x)). pose proof (Rmax_r 0 (b - x)). apply Rmax_lub; lra. }
    rewrite (law_add _ L) in M; auto; [|apply K_part; lra].
    replace (mu (fun _ => a - b)) with (a - b) in M. fold (P b) in M. lra.
    transitivity ((a - b) * mu (fun _ => 1)); [rewrite (law_one _ L); ring|].
    rewrite <- (law_scal _ L); try lra; [|apply K_const; lra].
    apply law_ext; auto. apply K_scal; try lra. apply K_const; lra. intros; ring.
  Qed.
  Lemma slope_falls a b c : 0 <= c < b -> b < a -> slope b c <= slope a b.
  Proof.
    intros Hc Hb. set (t := (b - c) / (a - c)).
    assert (Ht : t * (a - c) = b - c) by (unfold t; field; lra).
    assert (0 <= t <= 1).
    { split; [apply Rmult_le_pos; [lra | left; apply Rinv_0_lt_compat; lra]|].
      apply Rmult_le_reg_r with (a - c); lra. }
    assert (M : P b <= t * P a + (1 - t) * P c).
    { unfold P. rewrite <- !(law_scal _ L) by (try lra; apply K_part; lra).
      rewrite <- (law_add _ L) by (apply K_scal; try lra; apply K_part; lra).
      apply (law_mono _ L).
      - apply K_part; lra.
      - apply K_plus; apply K_scal; try lra; apply K_part; lra.
      - intros x Hx. pose proof (Rmax_l 0 (a - x)). pose proof (Rmax_r 0 (a - x)).
        pose proof (Rmax_l 0 (c - x)). pose proof (Rmax_r 0 (c - x)).
        apply Rmax_lub.
        + apply Rplus_le_le_0_compat; apply Rmult_le_pos; lra.
        + assert (t * (a - x) <= t * Rmax 0 (a - x)) by (apply Rmult_le_compat_l; lra).
          assert ((1 - t) * (c - x) <= (1 - t) * Rmax 0 (c - x)) by (apply Rmult_le_compat_l; lra). lra. }
    apply Rmult_le_reg_r with ((b - c) * (a - b) / (a - c)).
    { apply Rmult_lt_0_compat; [apply Rmult_lt_0_compat; lra | apply Rinv_0_lt_compat; lra]. }
    replace (slope b c * ((b - c) * (a - b) / (a - c))) with ((P b - P c) * (1 - t)).
    2:{ unfold slope, t. field. lra. }
    replace (slope a b * ((b - c) * (a - b) / (a - c))) with ((P a - P b) * t).
    2:{ unfold slope, t. field. lra. }
    lra.
  Qed.

  Lemma ms_nonneg xs : falling xs -> forall g, (match xs with [] => True | x :: xs' => slope x (head xs') <= g end) ->
    nonneg (ms g xs).
  Proof.
    induction xs; intros Hf g Hg; cbn [ms]; constructor.
    - lra.
    - destruct Hf as [Ha Hf]. apply IHxs; auto. destruct xs as [|b xs]; auto.
      destruct Hf as [Hb Hf]. pose proof (head_nonneg _ Hf). unfold head in Ha at 1; simpl in Ha.
      change (head (b :: xs)) with b. apply slope_falls; lra.
  Qed.
  Lemma minf_nonneg xs : falling xs -> forall g, 0 <= g -> 0 <= minf g xs.
  Proof.
    induction xs; intros Hf g Hg; cbn [minf]; auto. destruct Hf as [Ha Hf]. pose proof (head_nonneg _ Hf).
    apply IHxs; auto. apply slope_nonneg; lra.
  Qed.

  (* the curve *)
  Definition curve (y : R) : R := mu (phi y).
  Lemma P_curve y : P (exp (- y)) = exp (- y) * curve y.
  Proof.
    unfold curve, P. rewrite <- (law_scal _ L) by (auto; apply K_phi).
    apply law_ext; auto. { apply K_part; auto. } { apply K_scal; auto. apply K_phi. }
    intros x Hx. unfold phi. rewrite <- RmaxRmult by auto. rewrite Rmult_0_r. f_equal.
    rewrite exp_Ropp. field. pose proof (exp_pos y). lra.
  Qed.

  (* G of S3 *)
  Lemma slope_curve y y' : y < y' -> let s := exp (y - y') in
    slope (exp (- y)) (exp (- y')) = (curve y - s * curve y') / (1 - s).
  Proof.
    intros Hy s. unfold slope. rewrite !P_curve.
    assert (Hs : s < 1) by (unfold s; rewrite <- exp_0; apply exp_increasing; lra).
    assert (E : exp (- y') = exp (- y) * s) by (unfold s; rewrite <- exp_plus; f_equal; ring).
    rewrite E. pose proof (exp_pos (- y)). field. split; [lra|]. intros Hz.
    assert (exp (- y) * (1 - s) = 0) by lra. apply Rmult_integral in H0. lra.
  Qed.
  Lemma slope_last y : slope (exp (- y)) 0 = curve y.
  Proof.
    unfold slope. rewrite P_curve. replace (P 0) with 0.
    - field. pose proof (exp_pos (- y)). lra.
    - unfold P. transitivity (0 * mu (fun _ => 1)); [ring|].
      rewrite <- (law_scal _ L) by (try lra; apply K_const; lra).
      apply law_ext; auto. { apply K_scal; try lra. apply K_const; lra. } { apply K_part; lra. }
      intros. rewrite Rmax_left; lra.
  Qed.
End S3.
