(* Spherical Gaussian noise in any number of dimensions: only the length of the shift matters. *)
Require Import Evr.Setup.
Require Import Evr.Order Evr.Measure Evr.Weighted Evr.Lebesgue Evr.Normal Evr.Square Evr.Support Evr.Gaussian Evr.Statement Evr.Sampled.
Require Import Evr.Rotation Evr.OneStep.
Local Open Scope classical_set_scope. Local Open Scope ring_scope.

(* e0 and e1 are the densities of N(c, s^2 I) and N(c + v, s^2 I) in R^m, |v|^2 = r: coordinate by coordinate. *)
Inductive shifted (s : R) : forall d (T : measurableType d), {measure set T -> \bar RR} -> (T -> RR) -> (T -> RR) -> R -> Prop :=
| coordinate (c v : R) : shifted s leb (fun t => density c s t : RR) (fun t => density (c + v)%R s t : RR) (v * v)%R
| coordinates d1 d2 (T1 : measurableType d1) (T2 : measurableType d2) (mu1 : {measure set T1 -> \bar RR})
    (mu2 : {measure set T2 -> \bar RR}) (s2 : sigma_finite setT mu2) e0 e1 g0 g1 r1 r2 :
    shifted s mu1 e0 e1 r1 -> shifted s mu2 g0 g1 r2 ->
    shifted s [the measure _ _ of product_measure1 mu1 s2] (fun z => e0 z.1 * g0 z.2) (fun z => e1 z.1 * g1 z.2) (r1 + r2)%R.

Definition along (s : R) d (T : measurableType d) (mu : {measure set T -> \bar RR}) (e0 e1 : T -> RR) (r : R) (y : T -> RR) : Prop :=
  [/\ measurable_fun setT y, measurable_fun setT e0, (forall t, Rlt 0 (e0 t)),
      (forall t, e1 t = Rmult (exp ((y t - r / 2) / (s * s))%R) (e0 t)) &
      forall Psi : RR -> \bar RR, measurable_fun setT Psi -> (forall x, (0 <= Psi x)%E) ->
        (\int[mu]_t (Psi (y t) * (e0 t)%:E) = \int[leb]_z (Psi (Rmult (sqrt r) z) * (density 0 s z : RR)%:E))%E].

Lemma m_scale (a : R) : measurable_fun setT ((fun z => Rmult a z) : RR -> RR).
Proof. by apply: measurable_funM; [exact: measurable_fun_cst | exact: measurable_fun_id]. Qed.

Lemma m_off (v c : R) : measurable_fun setT ((fun t => Rmult v (Rminus t c)) : RR -> RR).
Proof.
have -> : ((fun t => Rmult v (Rminus t c)) : RR -> RR) = affine (v : RR) (Ropp (Rmult v c)).
  by apply: funext => t; change (Rmult v (Rminus t c) = Rplus (Rmult v t) (Ropp (Rmult v c))); ring.
exact: m_affine.
Qed.

Theorem projected s d (T : measurableType d) (mu : {measure set T -> \bar RR}) e0 e1 r : Rlt 0 s ->
  shifted s mu e0 e1 r -> Rle 0 r /\ exists y, along s mu e0 e1 r y.
Proof.
move=> s0; elim=> {d T mu e0 e1 r}.
  move=> c v; split; first by have := Rle_0_sqr v. exists (fun t => Rmult v (Rminus t c)); split.
  - exact: m_off.
  - exact: m_density.
  - by move=> t; exact: density_pos.
  - by move=> t; rewrite density_shift.
  move=> Psi mPsi Psi0. pose a : R := if Rle_dec 0 v then 1%R else (-1)%R.
  have aa : (a * a = 1)%R by rewrite /a; case: (Rle_dec 0 v) => [h|h] /=; ring. have av : (v * a = sqrt (v * v))%R.
    have -> : sqrt (v * v)%R = Rabs v by exact: sqrt_Rsqr_abs.
    rewrite /a; case: (Rle_dec 0 v) => [h|h] /=; first by rewrite Rabs_pos_eq // Rmult_1_r. by rewrite Rabs_left; lra.
  have a0 : (a : RR) != 0 by apply/eqP => h; move: aa; rewrite h; change (0 : RR) with (IZR 0); lra.
  have an : `|(a : RR)| = 1.
    by change (Rabs a = 1%R); rewrite /a; case: (Rle_dec 0 v) => [h|h] /=; [rewrite Rabs_R1 | rewrite Rabs_left; lra].
  pose g (t : RR) := (Psi (Rmult v (Rminus t c)) * (density c s t : RR)%:E)%E. have mv := m_off v c.
  have mg : measurable_fun setT g.
    apply: emeasurable_funM; first exact: (@measurable_fun_comp _ _ _ _ _ _ Psi setT _ mPsi mv).
    by apply/EFin_measurable_fun; exact: m_density.
  have g0 t : (0 <= g t)%E by apply: mule_ge0 => //; rewrite lee_fin; exact: density_ge0.
  rewrite [LHS](leb_affine (c : RR) a0 mg g0) an mul1e; apply: eq_integral => z _; rewrite /g /affine.
  change (a * z + c) with (Rplus (Rmult a z) c); rewrite density_turned //; congr (Psi _ * _)%E.
  by rewrite -av; change (Rmult v (Rminus (Rplus (Rmult a z) c) c) = Rmult (Rmult v a) z); ring.
move=> d1 d2 T1 T2 mu1 mu2 s2 e0 e1 g0 g1 r1 r2 _ [r10 [y1 [my1 me0 e00 E1 P1]]] _ [r20 [y2 [my2 mg0 g00 E2 P2]]].
split; first lra. exists (fun z => y1 z.1 + y2 z.2). have my : measurable_fun setT (fun z : T1 * T2 => y1 z.1 + y2 z.2).
  by apply: measurable_funD; [exact: m_on_fst | exact: m_on_snd].
have me : measurable_fun setT (fun z : T1 * T2 => e0 z.1 * g0 z.2).
  by apply: measurable_funM; [exact: m_on_fst | exact: m_on_snd].
split=> //.
- by move=> t; exact: Rmult_lt_0_compat.
- move=> t; rewrite E1 E2.
  change (Rmult (Rmult (exp ((y1 t.1 - r1 / 2) / (s * s))%R) (e0 t.1)) (Rmult (exp ((y2 t.2 - r2 / 2) / (s * s))%R) (g0 t.2)) =
    Rmult (exp ((Rplus (y1 t.1) (y2 t.2) - (r1 + r2) / 2) / (s * s))%R) (Rmult (e0 t.1) (g0 t.2))).
  have -> : ((Rplus (y1 t.1) (y2 t.2) - (r1 + r2) / 2) / (s * s) = (y1 t.1 - r1 / 2) / (s * s) + (y2 t.2 - r2 / 2) / (s * s))%R by field; lra.
  by rewrite exp_plus; ring.
move=> Psi mPsi Psi0. have e0n t : (0 <= (e0 t)%:E)%E by rewrite lee_fin; apply/RleP; exact: Rlt_le.
have g0n t : (0 <= (g0 t)%:E)%E by rewrite lee_fin; apply/RleP; exact: Rlt_le.
have n0 z : (0 <= (density 0 s z : RR)%:E)%E by rewrite lee_fin; exact: density_ge0.
pose Q (z : T1 * T2) := (Psi (y1 z.1 + y2 z.2)%R * (e0 z.1 * g0 z.2)%:E)%E. have mQ : measurable_fun setT Q.
  apply: emeasurable_funM; last exact/EFin_measurable_fun. exact: (@measurable_fun_comp _ _ _ _ _ _ Psi setT _ mPsi my).
have Q0 z : (0 <= Q z)%E by apply: mule_ge0 => //; rewrite EFinM mule_ge0.
rewrite [LHS](fubini_tonelli1 s2 _ mQ Q0 (m1 := mu1)).
(* the inner integral, by P2 *)
pose Psi2 (t : RR) := (\int[leb]_z (Psi (Rplus t (Rmult (sqrt r2) z)) * (density 0 s z : RR)%:E))%E.
transitivity (\int[mu1]_t (Psi2 (y1 t) * (e0 t)%:E))%E.
  apply: eq_integral => t _; rewrite /fubini_F /Q /=.
  have mt : measurable_fun setT ((fun x : RR => Psi (Rplus (y1 t) x)) : RR -> \bar RR).
    apply: (@measurable_fun_comp _ _ _ _ _ _ Psi setT (fun x : RR => Rplus (y1 t) x : RR) mPsi).
    by apply: measurable_funD; [exact: measurable_fun_cst | exact: measurable_fun_id].
  have := P2 _ mt (fun x => Psi0 _) => p2. rewrite /Psi2 -p2 muleC -ge0_integralM //.
  - by apply: eq_integral => u _; rewrite EFinM muleCA.
  - by apply: emeasurable_funM; [exact: (@measurable_fun_comp _ _ _ _ _ _ _ setT _ mt my2) | exact/EFin_measurable_fun].
  - by move=> u _; apply: mule_ge0.
pose L (w : RR * RR) : RR := Rplus w.1 (Rmult (sqrt r2) w.2). have mL : measurable_fun setT L.
  apply: measurable_funD; first exact: (m_on_fst (@measurable_fun_id _ _ _)). exact: (m_on_snd (m_scale (sqrt r2))).
have mK : measurable_fun setT (fun w : RR * RR => (Psi (L w) * (density 0 s w.2 : RR)%:E)%E).
  apply: emeasurable_funM; last by apply/EFin_measurable_fun; exact: (m_on_snd (m_density 0 s)).
  exact: (@measurable_fun_comp _ _ _ _ _ _ Psi setT L mPsi mL).
have K0 (w : RR * RR) : (0 <= Psi (L w) * (density 0 s w.2 : RR)%:E)%E by apply: mule_ge0.
have mPsi2 : measurable_fun setT Psi2 by have := measurable_fun_fubini_tonelli_F leb_sigma_finite _ mK K0.
have Psi20 x : (0 <= Psi2 x)%E by apply: integral_ge0 => z _; apply: mule_ge0. rewrite (P1 _ mPsi2 Psi20).
case: (Req_dec r2 0) => [r2z|r2n].
  apply: eq_integral => z _; congr (_ * _)%E; rewrite /Psi2 r2z sqrt_0 Rplus_0_r.
  under eq_integral do rewrite Rmult_0_l Rplus_0_r.
  rewrite ge0_integralM //; last by apply/EFin_measurable_fun; exact: m_density.
  by have := @mass_all 0 s s0; rewrite /= /weighted => ->; rewrite mule1.
pose ro : R := sqrt (r1 + r2)%R. have ro0 : Rlt 0 ro by apply: sqrt_lt_R0; lra.
have roro : (ro * ro = r1 + r2)%R by apply: sqrt_sqrt; lra.
pose al : RR := Rdiv (sqrt r2) ro; pose be : RR := Rdiv (sqrt r1) ro. have al0 : al != 0.
  apply/eqP => h; have : Rlt 0 al by apply: Rdiv_lt_0_compat => //; apply: sqrt_lt_R0; lra.
  by rewrite h; change (0 : RR) with (IZR 0); lra.
have unit : al * al + be * be = 1.
  change (Rplus (Rmult (sqrt r2 / ro) (sqrt r2 / ro)) (Rmult (sqrt r1 / ro) (sqrt r1 / ro)) = 1)%R.
  have -> : ((sqrt r2 / ro) * (sqrt r2 / ro) + (sqrt r1 / ro) * (sqrt r1 / ro) = (sqrt r2 * sqrt r2 + sqrt r1 * sqrt r1) / (ro * ro))%R by field; lra.
  by rewrite (sqrt_sqrt r2) // (sqrt_sqrt r1) // roro; field; lra.
have m3 : measurable_fun setT ((fun x : RR => Psi (Rmult ro x)) : RR -> \bar RR).
  exact: (@measurable_fun_comp _ _ _ _ _ _ Psi setT _ mPsi (m_scale ro)).
rewrite -(normal_sum s0 al0 unit m3 (fun x => Psi0 _)).
apply: eq_integral => w _; rewrite muleC; congr (_ * _)%E; rewrite /Psi2.
apply: eq_integral => z _; congr (Psi _ * _)%E.
change (Rplus (Rmult (sqrt r1) w) (Rmult (sqrt r2) z) = Rmult ro (Rplus (Rmult (sqrt r2 / ro)%R z) (Rmult (sqrt r1 / ro)%R w))).
by field; lra.
Qed.
