(* The curve of two laws with densities, and of the sampled Gaussian pair. *)
Require Import Evr.Setup.
Require Import Evr.Weighted Evr.Lebesgue Evr.Normal Evr.Gaussian Evr.Statement.
Local Open Scope classical_set_scope. Local Open Scope ring_scope.

(* If f is measurable and between 0 and a constant times a density, its integral is finite, etc. *)
Section excess_of.
Variables (a b : RR -> RR).
Hypotheses (ma : measurable_fun setT a) (mb : measurable_fun setT b).
Hypotheses (a0 : forall t, Rle 0 (a t)) (b0 : forall t, Rle 0 (b t)).

Definition over (al be : R) (t : RR) : RR := Rmax 0 (Rminus (Rmult al (a t)) (Rmult be (b t))).

Lemma m_lin (al be : R) : measurable_fun setT ((fun t => Rminus (Rmult al (a t)) (Rmult be (b t))) : RR -> RR).
Proof.
apply: measurable_funB.
  by apply: measurable_funM => //; exact: measurable_fun_cst.
by apply: measurable_funM => //; exact: measurable_fun_cst.
Qed.
Lemma m_over al be : measurable_fun setT (over al be).
Proof.
have -> : over al be = (cst (0 : RR)) \max (fun t => Rminus (Rmult al (a t)) (Rmult be (b t)) : RR).
  apply: funext => t; rewrite /over /= maxEle; case: ifPn => [/RleP h|].
    by rewrite Rmax_right.
  by rewrite -ltNge => /RltP h; rewrite Rmax_left //; exact: Rlt_le.
by apply: measurable_fun_max; [exact: measurable_fun_cst | exact: m_lin].
Qed.
Lemma over0 al be t : (0 <= (over al be t)%:E)%E.
Proof. by rewrite lee_fin; apply/RleP; exact: Rmax_l. Qed.

Definition whole (f : RR -> RR) (A : set RR) : \bar RR := (\int[leb]_(t in A) (f t)%:E)%E.
Variables (A : set RR) (va vb : R).
Hypothesis mA : measurable A.
Hypotheses (Ha : whole a A = (va : RR)%:E) (Hb : whole b A = (vb : RR)%:E).

Let mE (f : RR -> RR) D : measurable_fun setT f -> measurable_fun D (fun t => (f t)%:E).
Proof. by move=> mf; apply/measurable_funTS/EFin_measurable_fun. Qed.

Lemma whole_scale (f : RR -> RR) (c : R) (v : R) : measurable_fun setT f -> (forall t, Rle 0 (f t)) -> Rle 0 c ->
  whole f A = (v : RR)%:E -> whole (fun t => Rmult c (f t)) A = (Rmult c v : RR)%:E.
Proof.
move=> mf f0 c0 e; rewrite /whole.
have -> : (fun t => (Rmult c (f t) : RR)%:E) = (fun t => (c : RR)%:E * (f t)%:E)%E by apply: funext => t; rewrite -EFinM.
rewrite ge0_integralM //.
- by rewrite -/(whole f A) e -EFinM.
- exact: mE.
- by move=> t _; rewrite lee_fin; apply/RleP.
- by rewrite lee_fin; apply/RleP.
Qed.

Lemma whole_le (f g : RR -> RR) : measurable_fun setT f -> measurable_fun setT g ->
  (forall t, Rle 0 (f t)) -> (forall t, A t -> Rle (f t) (g t)) -> (whole f A <= whole g A)%E.
Proof.
move=> mf mg f0 fg; apply: ge0_le_integral => //; try exact: mE.
- by move=> t _; rewrite lee_fin; apply/RleP.
- by move=> t At; rewrite lee_fin; apply/RleP; apply: (Rle_trans _ _ _ (f0 t)); exact: fg.
- by move=> t At; rewrite lee_fin; apply/RleP; exact: fg.
Qed.

Lemma whole_add (f g : RR -> RR) : measurable_fun setT f -> measurable_fun setT g ->
  (forall t, Rle 0 (f t)) -> (forall t, Rle 0 (g t)) ->
  whole (fun t => Rplus (f t) (g t)) A = (whole f A + whole g A)%E.
Proof.
move=> mf mg f0 g0; rewrite /whole -ge0_integralD //; try exact: mE.
- by move=> t _; rewrite lee_fin; apply/RleP.
- by move=> t _; rewrite lee_fin; apply/RleP.
Qed.

Lemma whole_sub (f : RR -> RR) : measurable_fun setT f -> (forall t, Rle 0 (f t)) -> (whole f A <= whole f setT)%E.
Proof.
move=> mf f0; apply: subset_integral => //; first exact: mE. by move=> t _; rewrite lee_fin; apply/RleP.
Qed.
Lemma m_cst_mul (c : R) (f : RR -> RR) : measurable_fun setT f -> measurable_fun setT ((fun t => Rmult c (f t)) : RR -> RR).
Proof. by move=> mf; apply: measurable_funM => //; exact: measurable_fun_cst. Qed.

Theorem over_lower (al be : R) : Rle 0 al -> Rle 0 be -> ((Rmult al va : RR)%:E <= whole (over al be) setT + (Rmult be vb : RR)%:E)%E.
Proof.
move=> al0 be0; rewrite -(whole_scale ma a0 al0 Ha) -(whole_scale mb b0 be0 Hb).
apply: (@le_trans _ _ (whole (over al be) A + whole (fun t => Rmult be (b t)) A)%E).
  rewrite -whole_add; [|exact: m_over|exact: m_cst_mul|by move=> t; exact: Rmax_l|by move=> t; apply: Rmult_le_pos].
  apply: whole_le; first exact: m_cst_mul.
  - by apply: measurable_funD; [exact: m_over|exact: m_cst_mul].
  - by move=> t; apply: Rmult_le_pos.
  - by move=> t _; have := Rmax_r 0 (Rminus (Rmult al (a t)) (Rmult be (b t))); rewrite /over; lra.
by apply: lee_add2r; apply: whole_sub; [exact: m_over | move=> t; exact: Rmax_l].
Qed.

Theorem over_upper (al be be' : R) : Rle 0 al -> Rle 0 be' -> Rle be' be ->
  (forall t, A t -> Rle (Rmult be' (b t)) (Rmult al (a t))) ->
  (forall t, ~ A t -> Rle (Rmult al (a t)) (Rmult be' (b t))) ->
  (whole (over al be) setT + (Rmult be' vb : RR)%:E <= (Rmult al va : RR)%:E)%E.
Proof.
move=> al0 be0 bb inA outA; rewrite -(whole_scale ma a0 al0 Ha) -(whole_scale mb b0 be0 Hb).
apply: (@le_trans _ _ (whole (over al be') A + whole (fun t => Rmult be' (b t)) A)%E).
  apply: lee_add2r; rewrite /whole [leRHS]integral_mkcond. apply: ge0_le_integral => //.
  - by move=> t _; exact: over0.
  - by apply: mE; exact: m_over.
  - by move=> t _; apply: erestrict_ge0 => u _; exact: over0.
  - apply: (proj1 (measurable_restrict (fun t => (over al be' t)%:E) mA measurableT (@subsetT _ A))).
    by apply: mE; exact: m_over.
  move=> t _; rewrite /patch; case: ifPn => At.
    rewrite lee_fin; apply/RleP; apply: Rle_max_compat_l.
    have : Rle (Rmult be' (b t)) (Rmult be (b t)) by apply: Rmult_le_compat_r. by lra.
  rewrite lee_fin; apply/RleP; rewrite /over Rmax_left; first exact: Rle_refl.
  have := outA t; rewrite notin_set in At => /(_ At).
  have : Rle (Rmult be' (b t)) (Rmult be (b t)) by apply: Rmult_le_compat_r. by lra.
rewrite -whole_add; [|exact: m_over|exact: m_cst_mul|by move=> t; exact: Rmax_l|by move=> t; apply: Rmult_le_pos].
apply: whole_le; try exact: m_cst_mul.
- by apply: measurable_funD; [exact: m_over|exact: m_cst_mul].
- move=> t; have := Rmax_l 0 (Rminus (Rmult al (a t)) (Rmult be' (b t))); rewrite /over.
  have : Rle 0 (Rmult be' (b t)) by apply: Rmult_le_pos. by lra.
- by move=> t At; rewrite /over Rmax_right; [|have := inA t At]; lra.
Qed.
End excess_of.
