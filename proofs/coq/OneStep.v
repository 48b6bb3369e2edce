(* One sampled step with spherical Gaussian noise, and a shift of at most 1, is dominated by the step of Sampled.v. *)
Require Import Evr.Setup.
Require Import Evr.Order Evr.Measure Evr.Weighted Evr.Lebesgue Evr.Normal Evr.Square Evr.Support Evr.Gaussian Evr.Statement Evr.Sampled.
Require Import Evr.Rotation.
Local Open Scope classical_set_scope. Local Open Scope ring_scope.

Section one_step.
Variable n : noise.
Variable d : direction.
Variable f : R -> R.
Hypothesis Kf : K f.
Let q := rate n.
Let s := dev n.
Let s0 : Rlt 0 s := dev_ok n.
Let q01 : (0 <= q <= 1)%R := rate_ok n.
Let nu (t : RR) : RR := density 0 s t.
Let mnu : measurable_fun setT nu := m_density 0 s.
Let nu0 t : 0 <= nu t := density_ge0 0 s0 t.
Definition Hd (Y : R) : R := sampled_in (rate n) (match d with remove => true | add => false end) f Y.

Lemma Hd_pos Y : Rlt 0 Y -> Rle 0 (Hd Y).
Proof. by move=> Y0; apply: sampled_in_pos. Qed.

Lemma m_Hd (a b : R) : measurable_fun setT ((fun z => Hd (exp (a * z + b)%R)) : RR -> RR).
Proof.
have mu_ : measurable_fun setT ((fun z => (1 - q + q * exp (a * z + b))%R) : RR -> RR).
  by apply: continuous_measurable => z; exact: cont_u.
have mi : measurable_fun setT ((fun z => (/ (1 - q + q * exp (a * z + b)))%R) : RR -> RR).
  by apply: continuous_measurable => z; exact: cont_inv_u.
have up z : Rlt 0 (1 - q + q * exp (a * z + b))%R by apply: u_pos => //; exact: exp_pos.
rewrite /Hd /sampled_in; case: d.
  apply: measurable_funM; first exact: mu_.
  apply/EFin_measurable_fun; apply: (mfX mi _ Kf) => z; apply: Rlt_le; exact: Rinv_0_lt_compat.
by apply/EFin_measurable_fun; apply: (mfX mu_ _ Kf) => z; exact: Rlt_le.
Qed.
Lemma Hd0 (a b : R) z : (0 <= (Hd (exp (a * z + b)%R) : RR)%:E)%E.
Proof. by rewrite lee_fin; apply/RleP; apply: Hd_pos; exact: exp_pos. Qed.

(* the mean of a function of Y, for a shift of length a *)
Definition mean (a : R) : \bar RR := (\int[leb]_z ((Hd (exp (a / (s * s) * z + - (a * a) / (2 * (s * s)))%R) : RR)%:E * (nu z)%:E))%E.

Lemma jensen (a Y0 : R) : Rlt 0 Y0 ->
  ((Hd Y0 : RR)%:E <= \int[leb]_x ((Hd (Y0 * exp (a / (s * s) * x + - (a * a) / (2 * (s * s))))%R : RR)%:E * (nu x)%:E))%E.
Proof.
move=> Y00; have [k kP] := sampled_support q (match d with remove => true | add => false end) f Y0 Kf q01 Y00.
pose e x := exp (a / (s * s) * x + - (a * a) / (2 * (s * s)))%R. have e0 x : Rlt 0 (e x) by exact: exp_pos.
have eE (x : RR) : (Rmult (e x) (nu x)) = density a s x.
  have -> : a = Rplus 0 a by ring. rewrite (density_shift 0 a s x s0) /e /nu; congr (Rmult (exp _) _); field; lra.
pose h (x : RR) : RR := Hd (Y0 * e x)%R. have h0 x : Rle 0 (h x) by apply: Hd_pos; apply: Rmult_lt_0_compat.
have mh : measurable_fun setT h.
  have -> : h = (fun z => Hd (exp (a / (s * s) * z + (ln Y0 + - (a * a) / (2 * (s * s))))%R) : RR).
    apply: funext => x; rewrite /h /e; congr Hd. by rewrite -{1}(exp_ln Y0 Y00) -exp_plus; congr exp; ring.
  exact: m_Hd.
have mhn : measurable_fun setT (fun x => (Rmult (h x) (nu x) : RR)%:E) by apply/EFin_measurable_fun; exact: measurable_funM.
have hn0 x : (0 <= (Rmult (h x) (nu x) : RR)%:E)%E by rewrite lee_fin; apply/RleP; apply: Rmult_le_pos => //; apply/RleP.
have -> : (\int[leb]_x ((h x)%:E * (nu x)%:E) = \int[leb]_x (Rmult (h x) (nu x) : RR)%:E)%E by apply: eq_integral => x _; rewrite -EFinM.
have one c : (\int[leb]_x (density c s x : RR)%:E = 1)%E by have := @mass_all c s s0; rewrite /= /weighted.
have scaled (c : R) (v : R) : Rle 0 v -> (\int[leb]_x (Rmult v (density c s x) : RR)%:E = (v : RR)%:E)%E.
  move=> v0; have -> : (fun x => (Rmult v (density c s x) : RR)%:E) = (fun x => (v : RR)%:E * (density c s x : RR)%:E)%E by apply: funext => x; rewrite -EFinM.
  rewrite ge0_integralM //; first by rewrite one mule1.
  - by apply/EFin_measurable_fun; exact: m_density.
  - by move=> x _; rewrite lee_fin; exact: density_ge0.
  - by rewrite lee_fin; apply/RleP.
have md (c v : R) : measurable_fun setT (fun x : RR => (Rmult v (density c s x) : RR)%:E).
  by apply/EFin_measurable_fun; apply: measurable_funM; [exact: measurable_fun_cst | exact: m_density].
have pd c v x : Rle 0 v -> (0 <= (Rmult v (density c s x) : RR)%:E)%E.
  by move=> v0; rewrite lee_fin; apply/RleP; apply: Rmult_le_pos => //; apply: Rlt_le; exact: density_pos.
have H0 : Rle 0 (Hd Y0) by exact: Hd_pos. pose kk := Rmult k Y0. have line x : Rle (Hd Y0 + kk * (e x - 1))%R (h x).
  have : Rle (Hd Y0 + k * (Y0 * e x - Y0))%R (h x) := kP (Y0 * e x)%R (Rmult_lt_0_compat _ _ Y00 (e0 x)).
  by rewrite /kk; lra.
pose kp := Rmax 0 kk; pose km := Rmax 0 (- kk)%R. have kp0 : Rle 0 kp by exact: Rmax_l.
have km0 : Rle 0 km by exact: Rmax_l. have kE : kk = Rminus kp km.
  rewrite /kp /km; case: (Rle_dec 0 kk) => hk.
    by rewrite Rmax_right // Rmax_left; lra.
  by rewrite Rmax_left; [rewrite Rmax_right; lra | lra].
(* h nu + kp nu + km e nu >= (H + km) nu + kp e nu *)
have A1 : (\int[leb]_x ((Rmult (h x) (nu x) : RR)%:E + ((Rmult kp (density 0 s x) : RR)%:E + (Rmult km (density a s x) : RR)%:E)) =
   \int[leb]_x (Rmult (h x) (nu x) : RR)%:E + ((kp : RR)%:E + (km : RR)%:E))%E.
  have p3 x : (0 <= (Rmult kp (density 0 s x) : RR)%:E + (Rmult km (density a s x) : RR)%:E)%E by apply: adde_ge0; exact: pd.
  have m3 : measurable_fun setT (fun x : RR => ((Rmult kp (density 0 s x) : RR)%:E + (Rmult km (density a s x) : RR)%:E)%E).
    by apply: emeasurable_funD; exact: md.
  rewrite (ge0_integralD leb measurableT (fun x _ => hn0 x) mhn (fun x _ => p3 x) m3).
  rewrite (ge0_integralD leb measurableT (fun x _ => pd 0%R kp x kp0) (md 0%R kp) (fun x _ => pd a km x km0) (md a km)).
  by rewrite !scaled.
have A2 : (\int[leb]_x ((Rmult (Hd Y0 + km)%R (density 0 s x) : RR)%:E + (Rmult kp (density a s x) : RR)%:E) =
   (Hd Y0 + km : R)%R%:E + (kp : RR)%:E)%E.
  have hk0 : Rle 0 (Hd Y0 + km)%R by lra.
  rewrite (ge0_integralD leb measurableT (fun x _ => pd 0%R _ x hk0) (md 0%R _) (fun x _ => pd a kp x kp0) (md a kp)).
  by rewrite !scaled.
have A3 : ((Hd Y0 + km : R)%R%:E + (kp : RR)%:E <= \int[leb]_x (Rmult (h x) (nu x) : RR)%:E + ((kp : RR)%:E + (km : RR)%:E))%E.
  rewrite -A1 -A2; apply: ge0_le_integral => //.
  - by move=> x _; apply: adde_ge0; apply: pd; lra.
  - by apply: emeasurable_funD; exact: md.
  - by move=> x _; apply: adde_ge0 => //; apply: adde_ge0; exact: pd.
  - by apply: emeasurable_funD => //; apply: emeasurable_funD; exact: md.
  move=> x _; rewrite -!EFinD lee_fin; apply/RleP.
  change (Rle (Rplus (Rmult (Hd Y0 + km)%R (density 0 s x)) (Rmult kp (density a s x)))
    (Rplus (Rmult (h x) (nu x)) (Rplus (Rmult kp (density 0 s x)) (Rmult km (density a s x))))).
  rewrite -!eE -/(nu x). have nx : Rle 0 (nu x) by apply: Rlt_le; exact: density_pos.
  have := Rmult_le_compat_r (nu x) _ _ nx (line x); rewrite kE; lra.
move: A3; rewrite -[X in (X <= _)%E]EFinD -[X in (_ <= _ + X)%E]EFinD.
have -> : (((Hd Y0 + km)%R : RR) + (kp : RR))%:E = ((Hd Y0 : RR)%:E + ((kp : RR) + (km : RR))%:E)%E.
  by rewrite -EFinD; congr EFin; change (Rplus (Rplus (Hd Y0) km) kp = Rplus (Hd Y0) (Rplus kp km)); ring.
by rewrite addeC [X in (_ <= X)%E]addeC lee_add2lE.
Qed.

(* the mean of the step itself *)
Lemma step_mean : (step_of n d f : RR)%:E = mean 1.
Proof.
have fin := int_fin (P_all n d) (@m_x n d) (@x_pos n d) Kf.
rewrite /step_of /integral fineK // integral_weighted; last 2 first.
- exact: (mfX (@m_x n d) (@x_pos n d) Kf).
- by move=> t; exact: (fX0 (@x_pos n d) t Kf).
apply: eq_integral => z _; rewrite -!EFinM; congr EFin.
change (Rmult (f (x_of n d z)) (dens_p n d z) = Rmult (Hd (exp (1 / (s * s) * z + - (1 * 1) / (2 * (s * s)))%R)) (nu z)).
have -> : (1 / (s * s) * z + - (1 * 1) / (2 * (s * s)))%R = ((z - 1 / 2) / (s * s))%R by field; lra.
have d0 := density_pos 0 s s0 z. set E := exp _; have E0 : Rlt 0 E by exact: exp_pos. have u0 := u_pos q E q01 E0.
have mE : mixture n z = Rmult (1 - q + q * E)%R (density 0 s z).
  by rewrite /mixture (density_ratio _ z s0) -/q -/s -/E; ring.
rewrite /Hd /sampled_in /x_of /dens_p /dens_q -/q -/s /nu; case: d {fin}; rewrite mE.
  have -> : (density 0 s z / ((1 - q + q * E) * density 0 s z))%R = (/ (1 - q + q * E))%R by field; lra. by ring.
by have -> : ((1 - q + q * E) * density 0 s z / density 0 s z)%R = (1 - q + q * E)%R by field; lra.
Qed.

Lemma mean_mono (r : R) : (0 <= r <= 1)%R -> (mean (sqrt r) <= mean 1)%E.
Proof.
move=> [r0 r1]; case: (Req_dec r 1) => [->|rn]; first by rewrite sqrt_1.
pose be : RR := sqrt r; pose al : RR := sqrt (1 - r)%R. have bb : Rmult be be = r by exact: sqrt_sqrt.
have aa : Rmult al al = (1 - r)%R by apply: sqrt_sqrt; lra.
have al0 : al != 0 by apply/eqP => h; move: aa; rewrite h; change (0 : RR) with (IZR 0); lra.
have unit : al * al + be * be = 1 by change (Rplus (Rmult al al) (Rmult be be) = IZR 1); lra.
pose Psi (z : RR) : \bar RR := (Hd (exp (1 / (s * s) * z + - (1 * 1) / (2 * (s * s)))%R) : RR)%:E.
have mPsi : measurable_fun setT Psi by apply/EFin_measurable_fun; exact: m_Hd.
have Psi0 z : (0 <= Psi z)%E by exact: Hd0. rewrite [X in (_ <= X)%E]/mean -(normal_sum s0 al0 unit mPsi Psi0).
rewrite /mean; apply: ge0_le_integral => //.
- by move=> z _; apply: mule_ge0; [exact: Hd0 | rewrite lee_fin].
- by apply: emeasurable_funM; apply/EFin_measurable_fun => //; exact: m_Hd.
- by move=> y _; apply: mule_ge0; [rewrite lee_fin | apply: integral_ge0 => x _; apply: mule_ge0 => //; rewrite lee_fin].
- apply: emeasurable_funM; first exact/EFin_measurable_fun.
  pose L (w : RR * RR) : RR := al * w.2 + be * w.1. have mL : measurable_fun setT L.
    apply: measurable_funD.
      by apply: measurable_funM; [exact: measurable_fun_cst | exact: (m_on_snd (@measurable_fun_id _ _ _))].
    by apply: measurable_funM; [exact: measurable_fun_cst | exact: (m_on_fst (@measurable_fun_id _ _ _))].
  have mK : measurable_fun setT (fun w : RR * RR => (Psi (L w) * (nu w.2)%:E)%E).
    apply: emeasurable_funM; last by apply/EFin_measurable_fun; exact: (m_on_snd mnu).
    exact: (@measurable_fun_comp _ _ _ _ _ _ Psi setT L mPsi mL).
  have K0 (w : RR * RR) : (0 <= Psi (L w) * (nu w.2)%:E)%E by apply: mule_ge0 => //; rewrite lee_fin.
  by have := measurable_fun_fubini_tonelli_F leb_sigma_finite _ mK K0.
move=> y _; rewrite muleC; apply: lee_wpmul2l; first by rewrite lee_fin.
have := jensen al (exp_pos (be / (s * s) * y + - (be * be) / (2 * (s * s)))%R).
move=> /le_trans; apply; rewrite le_eqVlt; apply/orP; left; apply/eqP.
apply: eq_integral => x _; congr (_ * _)%E; rewrite /Psi; congr EFin; congr Hd. rewrite -exp_plus; congr exp.
change (be / (s * s) * y + - (be * be) / (2 * (s * s)) + (al / (s * s) * x + - (al * al) / (2 * (s * s))) =
   1 / (s * s) * (al * x + be * y) + - (1 * 1) / (2 * (s * s)))%R.
by rewrite aa bb; field; lra.
Qed.
End one_step.
