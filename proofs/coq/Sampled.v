(* The Poisson-sampled Gaussian pair, as a probability space and x = dQ/dP on it; its curve. *)
Require Import Evr.Setup.
Require Import Evr.Order Evr.Measure Evr.Weighted Evr.Lebesgue Evr.Normal Evr.Gaussian Evr.Statement Evr.Pair.
Local Open Scope classical_set_scope. Local Open Scope ring_scope.

Section sampled.
Variable n : noise.
Let q := rate n.
Let s := dev n.
Let s0 : Rlt 0 s := dev_ok n.

(* (1 - q) N(0, s^2) + q N(1, s^2) *)
Definition mixture (t : R) : R := ((1 - rate n) * density 0 (dev n) t + rate n * density 1 (dev n) t)%R.
(* the densities of P and Q *)
Definition dens_p (d : direction) : R -> R := match d with remove => mixture | add => density 0 (dev n) end.
Definition dens_q (d : direction) : R -> R := match d with remove => density 0 (dev n) | add => mixture end.
Definition x_of (d : direction) (t : RR) : RR := (dens_q d t / dens_p d t)%R.

Lemma mixture_pos t : Rlt 0 (mixture t).
Proof.
have [q0 q1] : (0 <= q <= 1)%R := rate_ok n; have := density_pos 0 s s0 t; have := density_pos 1 s s0 t; rewrite /mixture -/q -/s => h1 h0.
case: (Rle_dec q (1/2)) => h.
  have : Rlt 0 (Rmult (Rminus 1 q) (density 0 s t)) by apply: Rmult_lt_0_compat; lra.
  have : Rle 0 (Rmult q (density 1 s t)) by apply: Rmult_le_pos; lra. by lra.
have : Rle 0 (Rmult (Rminus 1 q) (density 0 s t)) by apply: Rmult_le_pos; lra.
have : Rlt 0 (Rmult q (density 1 s t)) by apply: Rmult_lt_0_compat; lra. by lra.
Qed.
Lemma p_pos d t : Rlt 0 (dens_p d t).
Proof. by case: d; [exact: mixture_pos | exact: density_pos]. Qed.
Lemma q_pos d t : Rlt 0 (dens_q d t).
Proof. by case: d; [exact: density_pos | exact: mixture_pos]. Qed.
Lemma p_ge0 d (t : RR) : 0 <= (dens_p d t : RR).
Proof. by apply/RleP; apply: Rlt_le; exact: p_pos. Qed.
Lemma m_mixture : measurable_fun setT (mixture : RR -> RR).
Proof.
apply: measurable_funD; apply: measurable_funM; try exact: measurable_fun_cst; exact: m_density.
Qed.
Lemma m_p d : measurable_fun setT (dens_p d : RR -> RR).
Proof. by case: d; [exact: m_mixture | exact: m_density]. Qed.

(* P, as a measure on the line *)
Definition P_of d := [the measure _ _ of weighted leb (m_p d) (p_ge0 d)].

Lemma x_pos d t : Rle 0 (x_of d t).
Proof. by apply: Rlt_le; apply: Rdiv_lt_0_compat; [exact: q_pos | exact: p_pos]. Qed.

Let g (t : R) : R := (1 - q + q * exp ((t - 1 / 2) / (s * s)))%R.
Lemma mixture_g t : mixture t = Rmult (g t) (density 0 s t).
Proof. by rewrite /mixture (density_ratio _ t s0) /g -/q -/s; ring. Qed.
Lemma g_pos t : Rlt 0 (g t).
Proof.
have := mixture_pos t; rewrite mixture_g => h; have d0 := density_pos 0 s s0 t.
apply: (Rmult_lt_reg_r (density 0 s t)) => //; lra.
Qed.
Lemma g_incr t u : Rle t u -> Rle (g t) (g u).
Proof.
move=> tu; have [q0 q1] : (0 <= q <= 1)%R := rate_ok n; apply: Rplus_le_compat_l; apply: Rmult_le_compat_l => //.
have i0 : Rlt 0 (/ (s * s)) by apply: Rinv_0_lt_compat; apply: Rmult_lt_0_compat.
have : Rle (Rmult (Rminus t (1/2)) (/ (s * s))) (Rmult (Rminus u (1/2)) (/ (s * s))) by apply: Rmult_le_compat_r; lra.
case=> [h|h]; last by rewrite /Rdiv h; exact: Rle_refl. by apply: Rlt_le; exact: exp_increasing.
Qed.
Lemma x_E d t : x_of d t = match d with remove => Rinv (g t) | add => g t end :> R.
Proof.
have d0 := density_pos 0 s s0 t; have g0 := g_pos t.
by case: d; rewrite /x_of /dens_p /dens_q mixture_g -/s; field; lra.
Qed.
Lemma m_x d : measurable_fun setT (x_of d).
Proof.
move=> mD; apply: (measurability (RGenOInfty.measurableE RR)) => //.
move=> /= _ [_ [r ->] <-]; rewrite setTI; apply: is_interval_measurable.
move=> a b /= fa fb c /andP[/RleP ac /RleP cb]; move: fa fb; rewrite /= !in_itv /= !andbT !x_E => fa fb.
case: d fa fb => fa fb.
  apply: (lt_le_trans fb); apply/RleP; apply: Rinv_le_contravar; [exact: g_pos | exact: g_incr].
by apply: (lt_le_trans fa); apply/RleP; exact: g_incr.
Qed.

Lemma mix_all : P_of remove setT = 1%E.
Proof.
change (\int[leb]_(t in setT) (Rplus (Rmult (Rminus 1 q) (density 0 s t)) (Rmult q (density 1 s t)) : RR)%:E = 1)%E.
have [q0 q1] : (0 <= q <= 1)%R := rate_ok n. have w0 := @mass_all 0 s s0; have w1 := @mass_all 1 s s0.
rewrite /= /weighted in w0 w1. have e c v : Rle 0 v -> (\int[leb]_(t in setT) (density c s t : RR)%:E = 1)%E ->
    (\int[leb]_(t in setT) (Rmult v (density c s t) : RR)%:E = (v : RR)%:E)%E.
  move=> v0 h; have := whole_scale measurableT (m_density c s) (fun t => Rlt_le _ _ (density_pos c s s0 t)) v0 h.
  by rewrite /whole Rmult_1_r.
rewrite [LHS](whole_add measurableT (m_cst_mul _ (m_density 0 s)) (m_cst_mul _ (m_density 1 s))).
- rewrite /whole e //; last lra.
  by rewrite e // -EFinD; congr EFin; change (Rplus (Rminus 1 q) q = IZR 1); ring.
- by move=> t; apply: Rmult_le_pos; [lra | apply: Rlt_le; exact: density_pos].
- by move=> t; apply: Rmult_le_pos; [lra | apply: Rlt_le; exact: density_pos].
Qed.
Lemma P_all d : P_of d setT = 1%E.
Proof. by case: d; [exact: mix_all | exact: mass_all]. Qed.

(* The step. *)
Definition step_of (d : direction) : (R -> R) -> R := integral _ _ (P_of d) (x_of d).

Definition a_of (d : direction) : RR -> RR := match d with remove => density 1 s | add => density 0 s end.
Definition b_of (d : direction) : RR -> RR := match d with remove => density 0 s | add => density 1 s end.
Definition alpha (d : direction) (r : R) : R := match d with remove => q | add => (1 - (1 - q) * r)%R end.
Definition beta (d : direction) (r : R) : R := match d with remove => (r - 1 + q)%R | add => (q * r)%R end.

Lemma m_a d : measurable_fun setT (a_of d). Proof. by case: d; exact: m_density. Qed.
Lemma m_b d : measurable_fun setT (b_of d). Proof. by case: d; exact: m_density. Qed.
Lemma a_pos d t : Rle 0 (a_of d t). Proof. by case: d; apply: Rlt_le; exact: density_pos. Qed.
Lemma b_pos d t : Rle 0 (b_of d t). Proof. by case: d; apply: Rlt_le; exact: density_pos. Qed.

Lemma step_over d y : whole (over (a_of d) (b_of d) (alpha d (exp y)) (beta d (exp y))) setT = (step_of d (excess y) : RR)%:E.
Proof.
have fin := int_fin (P_all d) (@m_x d) (@x_pos d) (K_phi y). rewrite /step_of /integral fineK //; symmetry.
rewrite integral_weighted; last 2 first.
- exact: (mfX (@m_x d) (@x_pos d) (K_phi y)).
- by move=> t; exact: (fX0 (@x_pos d) t (K_phi y)).
apply: eq_integral => t _; rewrite -EFinM; congr EFin.
change (Rmult (excess y (x_of d t)) (dens_p d t) = over (a_of d) (b_of d) (alpha d (exp y)) (beta d (exp y)) t).
rewrite /excess /over Rmult_comm -RmaxRmult; last by apply: Rlt_le; exact: p_pos.
have p0 := p_pos d t; congr Rmax; first ring.
rewrite /x_of; move: p0; rewrite /alpha /beta /a_of /b_of /dens_p /dens_q; case: d {fin} => p0.
  have -> : Rmult (mixture t) (Rminus 1 (Rmult (exp y) (Rdiv (density 0 (dev n) t) (mixture t)))) =
    Rminus (mixture t) (Rmult (exp y) (density 0 (dev n) t)) by field; lra.
  by rewrite /mixture -/q -/s; ring.
have -> : Rmult (density 0 (dev n) t) (Rminus 1 (Rmult (exp y) (Rdiv (mixture t) (density 0 (dev n) t)))) =
    Rminus (density 0 (dev n) t) (Rmult (exp y) (mixture t)) by field; lra.
by rewrite /mixture -/q -/s; ring.
Qed.

(* Half-lines: where a / b is at least e^L. *)
Definition upper_arg (L : R) : R := (/ (2 * s) - s * L)%R.
Definition lower_arg (L : R) : R := (- / (2 * s) - s * L)%R.
Definition half d (L : R) : set RR :=
  match d with remove => `](1 / 2 + s * s * L)%R, +oo[%classic | add => `]-oo, (1 / 2 - s * s * L)%R]%classic end.
Lemma m_half d L : measurable (half d L).
Proof. by case: d; exact: measurable_itv. Qed.
Lemma a_half d L : whole (a_of d) (half d L) = (Phi (upper_arg L) : RR)%:E.
Proof.
case: d; rewrite /half /a_of /whole.
  have := @mass_above 1 s s0 (1 / 2 + s * s * L)%R; rewrite /= /weighted => ->; congr EFin.
  rewrite -Phi_opp; congr Phi; rewrite /upper_arg; field; lra.
have := @mass_below 0 s s0 (1 / 2 - s * s * L)%R; rewrite /= /weighted => ->; congr EFin.
by congr Phi; rewrite /upper_arg; field; lra.
Qed.
Lemma b_half d L : whole (b_of d) (half d L) = (Phi (lower_arg L) : RR)%:E.
Proof.
case: d; rewrite /half /b_of /whole.
  have := @mass_above 0 s s0 (1 / 2 + s * s * L)%R; rewrite /= /weighted => ->; congr EFin.
  rewrite -Phi_opp; congr Phi; rewrite /lower_arg; field; lra.
have := @mass_below 1 s s0 (1 / 2 - s * s * L)%R; rewrite /= /weighted => ->; congr EFin.
by congr Phi; rewrite /lower_arg; field; lra.
Qed.

(* Any L bounds the curve from below ... *)
Theorem curve_lower d y L : Rle 0 (alpha d (exp y)) -> Rle 0 (beta d (exp y)) ->
  Rle (alpha d (exp y) * Phi (upper_arg L) - beta d (exp y) * Phi (lower_arg L))%R (step_of d (excess y)).
Proof.
move=> al be; have := over_lower (m_a d) (m_b d) (@a_pos d) (@b_pos d) (m_half d L) (a_half d L) (b_half d L) al be.
by rewrite step_over -EFinD lee_fin => /RleP; change (@GRing.add _ ?u ?v) with (Rplus u v); lra.
Qed.

Lemma ratio_half d L t : (half d L t -> Rle (exp L * b_of d t)%R (a_of d t)) /\ (~ half d L t -> Rle (a_of d t) (exp L * b_of d t)%R).
Proof.
have ss : Rlt 0 (s * s)%R by apply: Rmult_lt_0_compat. have d0 := density_pos 0 s s0 t.
have mono u v : Rle u v -> Rle (exp u) (exp v) by case=> [h|->]; [apply: Rlt_le; exact: exp_increasing | exact: Rle_refl].
have i0 : Rlt 0 (/ (s * s))%R by exact: Rinv_0_lt_compat.
case: d; rewrite /half /a_of /b_of (density_ratio _ t s0) /= in_itv /= ?andbT.
- have e : L = ((1 / 2 + s * s * L - 1 / 2) / (s * s))%R by field; lra.
  split=> [/RltP h|/negP]; last rewrite -leNgt => /RleP h.
  + apply: Rmult_le_compat_r; first lra; rewrite {1}e; apply: mono; apply: Rmult_le_compat_r; lra.
  + apply: Rmult_le_compat_r; first lra; rewrite [X in Rle _ (exp X)]e; apply: mono; apply: Rmult_le_compat_r; lra.
- have e : (- L)%R = ((1 / 2 - s * s * L - 1 / 2) / (s * s))%R by field; lra.
  have e1 : (exp L * exp (- L) = 1)%R by rewrite -exp_plus Rplus_opp_r exp_0. have p1 := exp_pos L.
  split=> [/RleP h|/negP]; last rewrite -ltNge => /RltP h.
  + rewrite -Rmult_assoc -[X in Rle _ X]Rmult_1_l; apply: Rmult_le_compat_r; first lra.
    rewrite -[X in Rle _ X]e1; apply: Rmult_le_compat_l; first lra.
    by rewrite e; apply: mono; apply: Rmult_le_compat_r; lra.
  + rewrite -Rmult_assoc -[X in Rle X _]Rmult_1_l; apply: Rmult_le_compat_r; first lra.
    rewrite -[X in Rle X _]e1; apply: Rmult_le_compat_l; first lra.
    by rewrite e; apply: mono; apply: Rmult_le_compat_r; lra.
Qed.

(* ... and one with alpha e^L <= beta from above; the two agree where alpha e^L = beta. *)
Theorem curve_upper d y L : Rle 0 (alpha d (exp y)) -> Rle (alpha d (exp y) * exp L)%R (beta d (exp y)) ->
  Rle (step_of d (excess y)) (alpha d (exp y) * (Phi (upper_arg L) - exp L * Phi (lower_arg L)))%R.
Proof.
move=> al be; have be' : Rle 0 (alpha d (exp y) * exp L)%R by apply: Rmult_le_pos => //; apply: Rlt_le; exact: exp_pos.
have in_ t : half d L t -> Rle (alpha d (exp y) * exp L * b_of d t)%R (alpha d (exp y) * a_of d t)%R.
  by move=> /(ratio_half d L t).1 h; rewrite Rmult_assoc; exact: Rmult_le_compat_l.
have out t : ~ half d L t -> Rle (alpha d (exp y) * a_of d t)%R (alpha d (exp y) * exp L * b_of d t)%R.
  by move=> /(ratio_half d L t).2 h; rewrite Rmult_assoc; exact: Rmult_le_compat_l.
have := over_upper (m_a d) (m_b d) (@a_pos d) (@b_pos d) (m_half d L) (a_half d L) (b_half d L) al be' be in_ out.
by rewrite step_over -EFinD lee_fin => /RleP; change (@GRing.add _ ?u ?v) with (Rplus u v); lra.
Qed.

(* The formula of S6, exactly. *)
Corollary curve_exact d y L : Rle 0 (alpha d (exp y)) -> beta d (exp y) = (alpha d (exp y) * exp L)%R ->
  step_of d (excess y) = (alpha d (exp y) * Phi (upper_arg L) - beta d (exp y) * Phi (lower_arg L))%R.
Proof.
move=> al be; apply: Rle_antisym.
  have := curve_upper (L := L) al; rewrite be => /(_ (Rle_refl _)); lra.
apply: curve_lower => //; rewrite be; apply: Rmult_le_pos => //; apply: Rlt_le; exact: exp_pos.
Qed.

(* Beyond the ends. *)
Lemma a_all d : whole (a_of d) setT = ((1 : R) : RR)%:E.
Proof. by case: d; [exact: (@mass_all 1 s s0) | exact: (@mass_all 0 s s0)]. Qed.
Lemma b_all d : whole (b_of d) setT = ((1 : R) : RR)%:E.
Proof. by case: d; [exact: (@mass_all 0 s s0) | exact: (@mass_all 1 s s0)]. Qed.
Lemma curve_flat y : Rle (beta remove (exp y)) 0 -> step_of remove (excess y) = (1 - exp y)%R.
Proof.
move=> be; have be' : Rle 0 (- beta remove (exp y))%R by lra.
have al : Rle 0 (alpha remove (exp y)) by have [] := rate_ok n. have := step_over remove y.
have -> : over (a_of remove) (b_of remove) (alpha remove (exp y)) (beta remove (exp y)) =
   (fun t => Rplus (Rmult (alpha remove (exp y)) (a_of remove t)) (Rmult (- beta remove (exp y))%R (b_of remove t))).
  apply: funext => t; rewrite /over Rmax_right; first by rewrite /Rminus Ropp_mult_distr_l.
  have : Rle 0 (Rmult (alpha remove (exp y)) (a_of remove t)) by apply: Rmult_le_pos => //; exact: (@a_pos remove).
  have : Rle 0 (Rmult (- beta remove (exp y))%R (b_of remove t)) by apply: Rmult_le_pos => //; exact: (@b_pos remove).
  lra.
rewrite (whole_add measurableT (m_cst_mul _ (m_a remove)) (m_cst_mul _ (m_b remove))).
- rewrite (whole_scale measurableT (m_a remove) (@a_pos remove) al (a_all remove)).
  rewrite (whole_scale measurableT (m_b remove) (@b_pos remove) be' (b_all remove)) -EFinD => -[] <-.
  by change (Rplus (q * 1) (- (exp y - 1 + q) * 1) = (1 - exp y)%R); ring.
- by move=> t; apply: Rmult_le_pos => //; exact: (@a_pos remove).
- by move=> t; apply: Rmult_le_pos => //; exact: (@b_pos remove).
Qed.
Lemma curve_zero y : Rle (alpha add (exp y)) 0 -> step_of add (excess y) = 0%R.
Proof.
move=> al; have [q0 _] := rate_ok n.
have be : Rle 0 (beta add (exp y)) by apply: Rmult_le_pos => //; apply: Rlt_le; exact: exp_pos. have := step_over add y.
have -> : over (a_of add) (b_of add) (alpha add (exp y)) (beta add (exp y)) = (fun t => Rmult 0 (a_of add t)).
  apply: funext => t; rewrite /over Rmax_left; first by rewrite Rmult_0_l.
  have : Rle 0 (Rmult (- alpha add (exp y))%R (a_of add t)) by apply: Rmult_le_pos; [lra | exact: (@a_pos add)].
  have : Rle 0 (Rmult (beta add (exp y)) (b_of add t)) by apply: Rmult_le_pos => //; exact: (@b_pos add). lra.
rewrite (whole_scale measurableT (m_a add) (@a_pos add) (Rle_refl 0) (a_all add)) => -[] <-. by rewrite Rmult_0_l.
Qed.
Lemma step_nonneg d y : Rle 0 (step_of d (excess y)).
Proof.
apply/RleP; apply: fine_ge0; apply: integral_ge0 => t _; rewrite lee_fin; apply/RleP; exact: Rmax_l.
Qed.
End sampled.

(* The same in the words of Training.v. *)
Lemma bellE : bell = density.
Proof.
apply: funext => c; apply: funext => s; apply: funext => t; rewrite /bell /density /gauss.
have -> : (\int[leb]_u (exp (- (u * u / 2)) : RR)%R%:E = (2 * half_Z : R)%R%:E)%E by exact: Z_integral. by [].
Qed.
Lemma with_recordE n : with_record n = mixture n.
Proof. by rewrite /with_record bellE. Qed.
Lemma stepE n d f : K f -> step n d f = step_of n d f.
Proof.
move=> Kf; rewrite /step /step_of /integral; congr fine. rewrite integral_weighted; last 2 first.
- exact: (mfX (@m_x n d) (@x_pos n d) Kf).
- by move=> t; exact: (fX0 (@x_pos n d) t Kf).
apply: eq_integral => t _; rewrite -EFinM; congr EFin. by rewrite /p_of /q_of bellE with_recordE mulrC; case: d.
Qed.
Lemma step_laws n d : Order.law (step_of n d).
Proof. exact: (law_of_is_law (P_all n d) (@m_x n d) (@x_pos n d)). Qed.
