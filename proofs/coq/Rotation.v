(* Lebesgue measure under affine maps, and the sum of two independent normal variables. *)
Require Import Evr.Setup.
Require Import Evr.Volume Evr.Weighted Evr.Lebesgue Evr.Normal Evr.Square Evr.Gaussian.
Local Open Scope classical_set_scope. Local Open Scope ring_scope.

Section affine.
Variables (a c : RR).
Hypothesis a0 : a != 0.
Definition affine (x : RR) : RR := a * x + c.
Lemma m_affine : measurable_fun setT affine.
Proof.
apply: measurable_funD; last exact: measurable_fun_cst.
by apply: measurable_funM; [exact: measurable_fun_cst | exact: measurable_fun_id].
Qed.
Let gR := [the measurableType _ of salgebraType (@ocitv RR)].
Let m_affine' : @measurable_fun _ _ gR gR setT affine := m_affine.
Let nu := [the measure _ _ of mscale (NngNum (normr_ge0 a)) [the measure _ _ of pushforward leb m_affine']].

Lemma affine_itv (u v : RR) : u < v -> nu `]u, v]%classic = (v - u)%:E.
Proof.
move=> uv; rewrite /nu /= /mscale /= /pushforward. have [ap|an] := ltP 0 a.
  have -> : affine @^-1` `]u, v]%classic = `](u - c) / a, (v - c) / a]%classic.
    apply/seteqP; split=> x /=; rewrite !in_itv /= /affine ltr_pdivr_mulr // ler_pdivl_mulr // ltr_subl_addr ler_subr_addr (mulrC x);
    by [].
  rewrite lebesgue_measure_itv hlength_itv /= lte_fin ltr_pmul2r ?invr_gt0 // ltr_add2r uv.
  rewrite -EFinD -EFinM gtr0_norm // -mulrBl; congr EFin. by rewrite mulrCA mulfV // mulr1 opprB addrA subrK.
have {an}an : a < 0 by rewrite lt_neqAle a0.
have -> : affine @^-1` `]u, v]%classic = `[(v - c) / a, (u - c) / a[%classic.
  apply/seteqP; split=> x /=; rewrite !in_itv /= /affine ltr_ndivl_mulr // ler_ndivr_mulr // ltr_subl_addr ler_subr_addr (mulrC x) andbC;
  by [].
rewrite lebesgue_measure_itv hlength_itv /= lte_fin ltr_nmul2r ?invr_lt0 // ltr_add2r uv.
rewrite -EFinD -EFinM ltr0_norm // -mulrBl; congr EFin. by rewrite mulrCA mulNr mulfV // mulrN1 opprB opprB addrA subrK.
Qed.

Lemma affine_measure X : measurable X -> leb X = nu X.
Proof.
apply: (@lebesgue_measure_unique RR nu) => {}X /ocitvP [->|[[u v] /= uv ->]]; first by rewrite hlength0 measure0.
by rewrite affine_itv // hlength_itv /= lte_fin uv EFinB.
Qed.

Theorem leb_affine (g : RR -> \bar RR) : measurable_fun setT g -> (forall x, 0 <= g x)%E ->
  (\int[leb]_x g x = (`|a|)%:E * \int[leb]_x g (affine x))%E.
Proof.
move=> mg g0. rewrite (@eq_measure_integral _ _ _ _ nu leb); last by move=> A mA _; exact: affine_measure.
rewrite ge0_integral_mscale //=; congr (_ * _)%E. by rewrite integral_pushforward.
Qed.
End affine.

Section coordinates.
Context d1 d2 (T1 : measurableType d1) (T2 : measurableType d2).
Lemma m_fst_snd : measurable_fun setT (@fst T1 T2) /\ measurable_fun setT (@snd T1 T2).
Proof.
have mid : measurable_fun [set: T1 * T2] (fun z : T1 * T2 => z) by move=> _ A mA; rewrite setTI.
exact: (proj1 (prod_measurable_funP _) mid).
Qed.
Lemma m_on_fst d3 (T3 : measurableType d3) (g : T1 -> T3) : measurable_fun setT g -> measurable_fun setT (fun z : T1 * T2 => g z.1).
Proof. by move=> mg; exact: (@measurable_fun_comp _ _ _ _ _ _ g setT fst mg m_fst_snd.1). Qed.
Lemma m_on_snd d3 (T3 : measurableType d3) (g : T2 -> T3) : measurable_fun setT g -> measurable_fun setT (fun z : T1 * T2 => g z.2).
Proof. by move=> mg; exact: (@measurable_fun_comp _ _ _ _ _ _ g setT snd mg m_fst_snd.2). Qed.
End coordinates.

Section sum.
Variable s : R.
Hypothesis s0 : Rlt 0 s.
Let n (t : RR) : RR := density 0 s t.
Let mn : measurable_fun setT n := m_density 0 s.
Let n0 t : 0 <= n t := density_ge0 0 s0 t.

Variables al be : RR.
Hypotheses (al0 : al != 0) (unit : al * al + be * be = 1).
Variable Psi : RR -> \bar RR.
Hypotheses (mPsi : measurable_fun setT Psi) (Psi0 : forall x, (0 <= Psi x)%E).

Let s' : R := Rmult (Rabs al) s.
Let s'0 : Rlt 0 s'.
Proof. by apply: Rmult_lt_0_compat => //; apply: Rabs_pos_lt; apply/eqP. Qed.

Lemma square_completed (y z : RR) : n y * (`|al^-1| * n (al^-1 * z + - (be * y / al))) = n z * density (be * z) s' y.
Proof.
have al1 : al <> 0%R by apply/eqP. have aA : Rlt 0 (Rabs al) by apply: Rabs_pos_lt.
have -> : `|al^-1| = Rinv (Rabs al) by rewrite normfV -RinvE ?normr_eq0.
have -> : al^-1 * z + - (be * y / al) = Rdiv (Rminus z (Rmult be y)) al.
  rewrite -RdivE // -RinvE //.
  by change (Rplus (Rmult (Rinv al) z) (Ropp (Rdiv (Rmult be y) al)) = Rdiv (Rminus z (Rmult be y)) al); field.
exact: (densities al be s y z al1 s0 unit).
Qed.

Lemma m_kernel : measurable_fun setT (fun w : RR * RR => (Psi w.2 * (n w.2 * (density (be * w.2) s' w.1 : RR))%:E)%E).
Proof.
apply: emeasurable_funM; first exact: m_on_snd.
apply/EFin_measurable_fun; apply: measurable_funM; first exact: m_on_snd.
have -> : (fun w : RR * RR => density (be * w.2) s' w.1 : RR) = (fun u : RR => density 0 s' u : RR) \o (fun w : RR * RR => w.1 - be * w.2).
  apply: funext => w; rewrite /= /density; congr (Rdiv (gauss (Rdiv _ _)) _).
  by change (Rminus w.1 (Rmult be w.2) = Rminus (Rminus w.1 (Rmult be w.2)) 0); ring.
apply: (@measurable_fun_comp _ _ _ _ _ _ (fun u : RR => density 0 s' u : RR) setT); first exact: m_density.
apply: measurable_funB; first exact: (m_on_fst (@measurable_fun_id _ _ _)).
by apply: measurable_funM; [exact: measurable_fun_cst | exact: (m_on_snd (@measurable_fun_id _ _ _))].
Qed.

Theorem normal_sum :
  (\int[leb]_y ((n y)%:E * \int[leb]_x (Psi (al * x + be * y) * (n x)%:E)) = \int[leb]_z (Psi z * (n z)%:E))%E.
Proof.
pose H (w : RR * RR) := (Psi w.2 * (n w.2 * (density (be * w.2) s' w.1 : RR))%:E)%E. have H0 w : (0 <= H w)%E.
  by apply: mule_ge0 => //; rewrite lee_fin; apply: mulr_ge0 => //; exact: density_ge0.
transitivity (\int[leb]_y \int[leb]_z H (y, z))%E.
  apply: eq_integral => y _. pose c := - (be * y / al); pose g x := (Psi (al * x + be * y) * (n x)%:E)%E.
  have mg : measurable_fun setT g.
    apply: emeasurable_funM; last exact/EFin_measurable_fun.
    by apply: (@measurable_fun_comp _ _ _ _ _ _ Psi setT) => //; exact: (m_affine al (be * y)).
  have g0 x : (0 <= g x)%E by apply: mule_ge0 => //; rewrite lee_fin. have ai : al^-1 != 0 by rewrite invr_neq0.
  rewrite (leb_affine c ai mg g0). have mg' : measurable_fun setT (g \o affine al^-1 c).
    by apply: measurable_fun_comp => //; exact: m_affine.
  rewrite muleA -EFinM -ge0_integralM //; last by rewrite lee_fin mulr_ge0.
  apply: eq_integral => z _; rewrite /H /g /affine /=. have -> : al * (al^-1 * z + c) + be * y = z.
    by rewrite mulrDr mulrA mulfV // mul1r /c mulrN mulrCA mulfV // mulr1 addrNK.
  by rewrite muleCA -EFinM -mulrA square_completed.
have t1 := fubini_tonelli1 leb_sigma_finite _ m_kernel H0 (m1 := leb).
have t2 := fubini_tonelli2 leb_sigma_finite leb_sigma_finite _ m_kernel H0.
rewrite -[LHS]t1 t2 /fubini_G; apply: eq_integral => z _.
transitivity (\int[leb]_y ((Psi z * (n z)%:E) * (density (be * z) s' y : RR)%:E))%E.
  by apply: eq_integral => y _; rewrite /H /= EFinM muleA.
rewrite ge0_integralM //.
- by have := @mass_all (be * z) s' s'0; rewrite /= /weighted => ->; rewrite mule1.
- by apply/EFin_measurable_fun; exact: m_density.
- by move=> y _; rewrite lee_fin; exact: density_ge0.
- by apply: mule_ge0 => //; rewrite lee_fin.
Qed.
End sum.
