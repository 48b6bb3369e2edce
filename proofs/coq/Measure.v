(* Any probability space: the law of a non-negative measurable x is a [law], and Fubini's theorem
   gives what the main theorem asks. Uses mathcomp-analysis. *)
Require Import Evr.Setup.
Require Import Evr.Order.
Local Open Scope classical_set_scope. Local Open Scope ring_scope.

Lemma measurable_K (f : R -> R) : K f ->
  measurable_fun setT ((fun x : R => f (Rmax 0 x)) : RR -> RR).
Proof.
move=> Kf mD; apply: (measurability (RGenOInfty.measurableE RR)) => //.
move=> /= _ [_ [r ->] <-]; rewrite setTI; apply: is_interval_measurable.
move=> a b /= fa fb c /andP[ac cb]; move: fa fb; rewrite /= !in_itv /= !andbT => _ fb.
apply: (lt_le_trans fb); apply/RleP; apply: (K_dec _ Kf); first exact: Rmax_l.
by apply: Rle_max_compat_l; apply/RleP.
Qed.

Section law_of.
Context d (T : measurableType d).
Variable m : {measure set T -> \bar RR}.
Hypothesis m1 : m setT = 1%E.
Variable X : T -> RR.
Hypothesis mX : measurable_fun setT X.
Hypothesis X0 : forall t, Rle 0 (X t).

Definition law_of (f : R -> R) : R := fine (\int[m]_t (f (X t) : RR)%:E)%E.

Lemma mfX f : K f -> measurable_fun setT (fun t => (f (X t) : RR)%:E).
Proof.
move=> Kf; apply/EFin_measurable_fun.
have -> : (fun t => f (X t)) = (fun x : RR => f (Rmax 0 x) : RR) \o X.
  by apply: funext => t /=; rewrite Rmax_right.
by apply: measurable_fun_comp => //; exact: measurable_K.
Qed.

Lemma fX0 f t : K f -> (0 <= (f (X t) : RR)%:E)%E.
Proof. by move=> Kf; rewrite lee_fin; apply/RleP; apply: (K_pos _ Kf). Qed.

Lemma int_fin f : K f -> (\int[m]_t (f (X t) : RR)%:E)%E \is a fin_num.
Proof.
move=> Kf; rewrite ge0_fin_numE; last by apply: integral_ge0 => t _; exact: fX0.
apply: (@le_lt_trans _ _ (\int[m]_t (cst (f 0 : RR)%:E t))%E); last first.
  by rewrite integral_cst // m1 mule1 ltry.
apply: ge0_le_integral => //.
- by move=> t _; exact: fX0.
- exact: mfX.
- by move=> t _; rewrite lee_fin; apply/RleP; apply: (K_pos _ Kf); exact: Rle_refl.
- exact: measurable_fun_cst.
- by move=> t _; rewrite lee_fin; apply/RleP; apply: (K_dec _ Kf); [exact: Rle_refl | exact: X0].
Qed.

Theorem law_of_is_law : law law_of.
Proof.
split.
- move=> f g Kf Kg fg; apply/RleP; rewrite /law_of fine_le ?int_fin //.
  apply: ge0_le_integral => //; try (by move=> t _; exact: fX0); try exact: mfX.
  by move=> t _; rewrite lee_fin; apply/RleP; exact: fg.
- move=> f g Kf Kg; rewrite /law_of.
  have -> : (\int[m]_t (Rplus (f (X t)) (g (X t)) : RR)%:E =
             \int[m]_t (f (X t) : RR)%:E + \int[m]_t (g (X t) : RR)%:E)%E.
    rewrite -ge0_integralD //; try (by move=> t _; exact: fX0); try exact: mfX.
  by rewrite fineD ?int_fin.
- move=> c f c0 Kf; rewrite /law_of.
  have -> : (\int[m]_t (Rmult c (f (X t)) : RR)%:E = (c : RR)%:E * \int[m]_t (f (X t) : RR)%:E)%E.
    rewrite -ge0_integralM //; try (by move=> t _; exact: fX0); try exact: mfX.
    by rewrite lee_fin; apply/RleP.
  by rewrite fineM ?int_fin.
- rewrite /law_of.
  have -> : (\int[m]_t (1%R : RR)%:E = 1)%E.
    by have := integral_cst m measurableT (1%:E : \bar RR); rewrite /cst m1 mule1.
  by [].
Qed.
End law_of.

Lemma finite_sigma_finite d (T : measurableType d) (m : {measure set T -> \bar RR}) :
  m setT = 1%E -> sigma_finite setT m.
Proof.
move=> m1; exists (fun _ => setT).
  by rewrite predeqE => x; split => // _; exists 0%N.
by move=> i; split => //; rewrite m1 ltry.
Qed.

Section two.
Context d1 d2 (T1 : measurableType d1) (T2 : measurableType d2).
Variables (m1 : {measure set T1 -> \bar RR}) (m2 : {measure set T2 -> \bar RR}).
Hypotheses (p1 : m1 setT = 1%E) (p2 : m2 setT = 1%E).
Variables (X : T1 -> RR) (Y : T2 -> RR).
Hypotheses (mX : measurable_fun setT X) (mY : measurable_fun setT Y).
Hypotheses (X0 : forall t, Rle 0 (X t)) (Y0 : forall t, Rle 0 (Y t)).

Lemma measurable_xy f : K f ->
  measurable_fun setT (fun z : T1 * T2 => (f (Rmult (X z.1) (Y z.2)) : RR)%:E).
Proof.
move=> Kf; apply/EFin_measurable_fun.
have -> : (fun z : T1 * T2 => f (Rmult (X z.1) (Y z.2))) =
          (fun x : RR => f (Rmax 0 x) : RR) \o ((X \o fst) \* (Y \o snd)).
  by apply: funext => z /=; rewrite Rmax_right //; apply: Rmult_le_pos.
apply: measurable_fun_comp; first exact: measurable_K.
have [mf ms] : measurable_fun setT (@fst T1 T2) /\ measurable_fun setT (@snd T1 T2).
  have mid : measurable_fun [set: T1 * T2] (fun z : T1 * T2 => z) by move=> _ A mA; rewrite setTI.
  exact: (proj1 (prod_measurable_funP _) mid).
apply: measurable_funM.
- exact: (@measurable_fun_comp _ _ _ _ _ _ X setT fst mX mf).
- exact: (@measurable_fun_comp _ _ _ _ _ _ Y setT snd mY ms).
Qed.

Theorem law_of_fubini f : K f ->
  comp (law_of m1 X) (law_of m2 Y) f = comp (law_of m2 Y) (law_of m1 X) f.
Proof.
move=> Kf; rewrite /comp /law_of.
have g0 (z : T1 * T2) : (0 <= (f (Rmult (X z.1) (Y z.2)) : RR)%:E)%E.
  by rewrite lee_fin; apply/RleP; apply: (K_pos _ Kf); apply: Rmult_le_pos.
have e1 : (\int[m1]_t (fine (\int[m2]_u (f (Rmult (X t) (Y u)) : RR)%:E) : RR)%:E =
           \int[m1]_t \int[m2]_u (f (Rmult (X t) (Y u)) : RR)%:E)%E.
  apply: eq_integral => t _; rewrite fineK //.
  exact: (int_fin p2 mY Y0 (K_inner f (X t) Kf (X0 t))).
have e2 : (\int[m2]_u (fine (\int[m1]_t (f (Rmult (Y u) (X t)) : RR)%:E) : RR)%:E =
           \int[m2]_u \int[m1]_t (f (Rmult (X t) (Y u)) : RR)%:E)%E.
  apply: eq_integral => u _; rewrite fineK //; last exact: (int_fin p1 mX X0 (K_inner f (Y u) Kf (Y0 u))).
  by apply: eq_integral => t _; rewrite Rmult_comm.
rewrite e1 e2; congr fine.
have s1 := finite_sigma_finite p1; have s2 := finite_sigma_finite p2.
have t1 := fubini_tonelli1 s2 _ (measurable_xy Kf) g0 (m1 := m1).
have t2 := fubini_tonelli2 s1 s2 _ (measurable_xy Kf) g0.
by rewrite -[LHS]t1 -[RHS]t2.
Qed.
End two.
