(* One step on a batch: mixtures over the sets of other records, spherical noise, clipped gradients. *)
Require Import Evr.Setup.
Require Import Evr.Order Evr.Measure Evr.Weighted Evr.Lebesgue Evr.Normal Evr.Square Evr.Support Evr.Gaussian Evr.Statement Evr.Meaning.
Require Import Evr.Sampled Evr.Rotation Evr.OneStep Evr.Spherical.
Local Open Scope classical_set_scope. Local Open Scope ring_scope.

Lemma m_inv : measurable_fun setT ((fun x : RR => if Rlt_dec 0 x then Rinv x else 0%R) : RR -> RR).
Proof.
move=> mD; apply: (measurability (RGenOInfty.measurableE RR)) => //.
move=> /= _ [_ [r ->] <-]; rewrite setTI; apply: is_interval_measurable.
move=> a b /= fa fb c /andP[/RleP ac /RleP cb]; move: fa fb; rewrite /= !in_itv /= !andbT => /RltP fa /RltP fb; apply/RltP.
move: fa fb; case: (Rlt_dec 0 a) => ha; case: (Rlt_dec 0 b) => hb; case: (Rlt_dec 0 c) => hc /= fa fb; try lra.
- by apply: (Rlt_le_trans _ _ _ fb); apply: Rinv_le_contravar.
- by have := Rinv_0_lt_compat c hc; lra.
Qed.
Lemma m_inverse d (T : measurableType d) (g : T -> RR) : measurable_fun setT g -> (forall t, Rlt 0 (g t)) ->
  measurable_fun setT ((fun t => Rinv (g t)) : T -> RR).
Proof.
move=> mg g0; have -> : ((fun t => Rinv (g t)) : T -> RR) = (fun x : RR => if Rlt_dec 0 x then Rinv x else 0%R) \o g.
  by apply: funext => t /=; case: Rlt_dec => // h; have := g0 t.
by apply: measurable_fun_comp => //; exact: m_inv.
Qed.

Lemma m_pf d (T : measurableType d) (p x : T -> RR) f : K f -> measurable_fun setT p -> measurable_fun setT x ->
  (forall t, 0 <= x t) -> measurable_fun setT (fun t => (p t * (f (x t) : RR))%:E).
Proof.
move=> Kf mp mx x0; apply/EFin_measurable_fun; apply: measurable_funM => //.
by apply/EFin_measurable_fun; apply: (mfX mx _ Kf) => t; apply/RleP.
Qed.

Lemma pf_ge0 d (T : measurableType d) (p x : T -> RR) f t : K f -> (forall t, 0 <= p t) -> (forall t, 0 <= x t) ->
  (0 <= (p t * (f (x t) : RR))%:E)%E.
Proof. by move=> Kf p0 x0; rewrite lee_fin mulr_ge0 //; apply/RleP; apply: (K_pos _ Kf); apply/RleP. Qed.

Section step.
Variables (n : noise) (dir : direction).
Context d (T : measurableType d) (mu : {measure set T -> \bar RR}).
Let q := rate n.
Let q01 : (0 <= q <= 1)%R := rate_ok n.
Variable C : R.                      (* the clipping norm *)
Hypothesis C0 : (0 < C)%R.

(* Given the other records of a batch: without the record the output has the density e0, with it, e1. *)
Definition with_coin (e0 e1 : T -> RR) (t : T) : RR := ((1 - rate n) * e0 t + rate n * e1 t)%R.
Definition p_given (e : (T -> RR) * (T -> RR)) : T -> RR := match dir with remove => with_coin e.1 e.2 | add => e.1 end.
Definition q_given (e : (T -> RR) * (T -> RR)) : T -> RR := match dir with remove => e.1 | add => with_coin e.1 e.2 end.

(* A batch: for each set of other records its probability, and e0 = N(c, (s C)^2 I), e1 = N(c + v, (s C)^2 I), |v|^2 = r <= C^2. *)
Definition batch := list (R * ((T -> RR) * (T -> RR))).
Definition good (b : batch) : Prop :=
  List.Forall (fun we => (0 <= we.1)%R /\ exists r, (r <= C * C)%R /\ shifted (dev n * C) mu we.2.1 we.2.2 r) b /\
  List.fold_right (fun we a => (we.1 + a)%R) 0%R b = 1%R.
Fixpoint total (g : (T -> RR) * (T -> RR) -> T -> RR) (b : batch) (t : T) : RR :=
  match b with nil => 0%R | (we :: b')%list => (we.1 * g we.2 t + total g b' t)%R end.
Definition P_batch (b : batch) : T -> RR := total p_given b.
Definition x_batch (b : batch) (t : T) : RR := (total q_given b t * / total p_given b t)%R.

Lemma one_given e0 e1 r f : shifted (dev n * C) mu e0 e1 r -> (r <= C * C)%R -> K f ->
  [/\ measurable_fun setT (p_given (e0, e1)), measurable_fun setT (q_given (e0, e1)),
      (forall t, Rlt 0 (p_given (e0, e1) t) /\ Rlt 0 (q_given (e0, e1) t)) &
      exists g : T -> RR, [/\ measurable_fun setT g, (forall t, Rle 0 (g t)),
        (forall t, g t = (p_given (e0, e1) t * f (q_given (e0, e1) t / p_given (e0, e1) t))%R :> R) &
        (\int[mu]_t (g t)%:E <= (step_of n dir f : RR)%:E)%E]].
Proof.
move=> sh r1 Kf; have sC0 : Rlt 0 (dev n * C)%R := Rmult_lt_0_compat _ _ (dev_ok n) C0.
have [r0 [y [my me0 e00 E P]]] := projected sC0 sh.
set s := (dev n * C)%R in sh sC0 y my E P *; have s0 : Rlt 0 s := sC0. pose Y t := exp ((y t - r / 2) / (s * s))%R.
have Y0 t : Rlt 0 (Y t) by exact: exp_pos. have u0 t := u_pos q (Y t) q01 (Y0 t).
have mixE t : with_coin e0 e1 t = ((1 - q + q * Y t) * e0 t)%R :> R by rewrite /with_coin E -/(Y t) -/q; ring.
have me1 : measurable_fun setT e1.
  have -> : e1 = (fun t => (exp ((y t - r / 2) / (s * s))%R : RR) * e0 t) by apply: funext => t; exact: E.
  apply: measurable_funM => //.
  apply: (@measurable_fun_comp _ _ _ _ _ _ (fun z : RR => exp ((z - r / 2) / (s * s))%R : RR) setT y _ my).
  have -> : (fun z : RR => exp ((z - r / 2) / (s * s))%R : RR) = (fun z : RR => (1 - 1 + 1 * exp (/ (s * s) * z + - (r / 2) / (s * s)))%R : RR).
    by apply: funext => z; rewrite Rminus_eq_0 Rplus_0_l Rmult_1_l; congr exp; field; lra.
  by apply: continuous_measurable => z; exact: cont_u.
have mw : measurable_fun setT (with_coin e0 e1).
  by apply: measurable_funD; apply: measurable_funM => //; exact: measurable_fun_cst.
have wpos t : Rlt 0 (with_coin e0 e1 t) by rewrite mixE; apply: Rmult_lt_0_compat. split.
- by rewrite /p_given; case: dir.
- by rewrite /q_given; case: dir.
- by move=> t; rewrite /p_given /q_given; case: dir => /=; split.
pose g (t : T) : RR := (Hd n dir f (Y t) * e0 t)%R.
have YE t : Y t = exp (/ (s * s) * y t + - (r / 2) / (s * s))%R by rewrite /Y; congr exp; field; lra.
have mHY : measurable_fun setT ((fun t => Hd n dir f (Y t)) : T -> RR).
  have -> : ((fun t => Hd n dir f (Y t)) : T -> RR) = (fun z : RR => Hd n dir f (exp (/ (s * s) * z + - (r / 2) / (s * s))%R) : RR) \o y.
    by apply: funext => t /=; rewrite YE.
  by apply: measurable_fun_comp => //; exact: (m_Hd n dir Kf).
exists g; split.
- by apply: measurable_funM.
- by move=> t; apply: Rmult_le_pos; [exact: (Hd_pos n dir Kf) | exact: Rlt_le].
- move=> t; rewrite /g /Hd /sampled_in /p_given /q_given -/q; have := e00 t; have := u0 t.
  case: dir => ut et /=; rewrite mixE.
    have -> : (e0 t / ((1 - q + q * Y t) * e0 t))%R = (/ (1 - q + q * Y t))%R by field; lra. by ring.
  have -> : ((1 - q + q * Y t) * e0 t / e0 t)%R = (1 - q + q * Y t)%R by field; lra. by ring.
pose Psi (z : RR) : \bar RR := (Hd n dir f (exp (/ (s * s) * z + - (r / 2) / (s * s))%R) : RR)%:E.
have mPsi : measurable_fun setT Psi by apply/EFin_measurable_fun; exact: (m_Hd n dir Kf).
have Psi0 z : (0 <= Psi z)%E by rewrite lee_fin; apply/RleP; apply: (Hd_pos n dir Kf); exact: exp_pos.
have -> : (\int[mu]_t (g t)%:E = \int[mu]_t (Psi (y t) * (e0 t)%:E))%E.
  by apply: eq_integral => t _; rewrite /Psi -EFinM /g YE.
rewrite (P _ mPsi Psi0) (step_mean n dir Kf). have CC : Rlt 0 (C * C)%R by exact: Rmult_lt_0_compat.
have r2 : (0 <= r / (C * C) <= 1)%R.
  split; first by apply: Rmult_le_pos => //; apply: Rlt_le; exact: Rinv_0_lt_compat.
  by apply: (Rmult_le_reg_r (C * C)) => //; rewrite Rmult_1_l /Rdiv Rmult_assoc Rinv_l ?Rmult_1_r //; lra.
apply: (le_trans _ (mean_mono n dir Kf r2)); rewrite le_eqVlt; apply/orP; left; apply/eqP.
pose h (z : RR) := (Psi (sqrt r * z)%R * (density 0 s z : RR)%:E)%E. have mh : measurable_fun setT h.
  apply: emeasurable_funM; last by apply/EFin_measurable_fun; exact: m_density.
  exact: (@measurable_fun_comp _ _ _ _ _ _ Psi setT _ mPsi (m_scale (sqrt r))).
have h0 z : (0 <= h z)%E by apply: mule_ge0 => //; rewrite lee_fin; exact: density_ge0.
have Cn : (C : RR) != 0 by apply/eqP => e; move: C0; rewrite e; exact: Rlt_irrefl.
have Ca : `|(C : RR)| = C by apply: ger0_norm; apply/RleP; exact: Rlt_le.
have mha : measurable_fun setT (fun z : RR => h (affine (C : RR) 0 z)).
  exact: (@measurable_fun_comp _ _ _ _ _ _ h setT _ mh (m_affine _ _)).
have Cp : (0 <= (C : RR)%:E)%E by rewrite lee_fin; apply/RleP; exact: Rlt_le.
rewrite [LHS](leb_affine (0 : RR) Cn mh h0) Ca /mean -(ge0_integralM leb measurableT mha (fun z _ => h0 _) Cp).
have d0 := dev_ok n; have hz := half_Z_pos. apply: eq_integral => z _; rewrite /h /affine muleCA; congr (_ * _)%E.
  rewrite /Psi; congr EFin; congr (Hd _ _ _); congr exp. have -> : sqrt r = (sqrt (r / (C * C)) * C)%R.
    have {1}-> : r = (r / (C * C) * (C * C))%R by field; lra.
    by rewrite sqrt_mult_alt; [rewrite sqrt_square //; lra | lra].
  have := sqrt_sqrt _ r2.1; set v := sqrt _ => vv. change (C * z + 0) with (Rplus (Rmult C z) 0).
  have -> : r = (v * v * (C * C))%R by rewrite vv; field; lra. by rewrite /s; field; lra.
rewrite -EFinM; congr EFin; rewrite /density /s.
change (Rmult C (gauss ((Rplus (Rmult C z) 0 - 0) / (dev n * C)) / (dev n * C * (2 * half_Z))) = gauss ((z - 0) / dev n) / (dev n * (2 * half_Z)))%R.
have -> : ((Rplus (Rmult C z) 0 - 0) / (dev n * C) = (z - 0) / dev n)%R by field; lra. by field; lra.
Qed.

Definition weight (b : batch) : R := List.fold_right (fun we a => (we.1 + a)%R) 0%R b.

Lemma batch_sum (b : batch) f : K f ->
  List.Forall (fun we => (0 <= we.1)%R /\ exists r, (r <= C * C)%R /\ shifted (dev n * C) mu we.2.1 we.2.2 r) b ->
  [/\ (0 <= weight b)%R, measurable_fun setT (total p_given b), measurable_fun setT (total q_given b),
      (forall t, [/\ (0 <= total p_given b t)%R, (0 <= total q_given b t)%R & (0 < weight b)%R -> (0 < total p_given b t)%R /\ (0 < total q_given b t)%R]) &
      exists G : T -> RR, [/\ measurable_fun setT G, (forall t, (0 <= G t)%R), (\int[mu]_t (G t)%:E <= (weight b * step_of n dir f : R)%R%:E)%E &
        forall t v0 m, (forall v, (0 <= v)%R -> (f v0 + m * (v - v0) <= f v)%R) ->
          (total p_given b t * f v0 + m * (total q_given b t - v0 * total p_given b t) <= G t)%R]].
Proof.
move=> Kf; elim: b => [_|[w [e0 e1]] b IH /List.Forall_cons_iff [[/= w0 [r [r1 sh]]] /IH {IH}[W mp mq tpos [G [mG G0 iG sG]]]]].
  split; rewrite /=; [lra|exact: measurable_fun_cst|exact: measurable_fun_cst|by move=> t; split; [lra|lra|move=> h; exfalso; lra]|].
  exists (fun _ => 0%R); split; [exact: measurable_fun_cst | by move=> t; lra | | by move=> t v0 m _; lra].
  have -> : (\int[mu]_t ((fun _ : T => 0%R : RR) t)%:E = 0)%E by exact: integral0.
  by rewrite lee_fin Rmult_0_l; apply/RleP; exact: Rle_refl.
have [mp1 mq1 pos [g [mg g0 gE ig]]] := one_given sh r1 Kf.
have s0 : (0 <= step_of n dir f)%R by apply/RleP; apply: fine_ge0; apply: integral_ge0 => t _; rewrite lee_fin; apply/RleP; apply: (K_pos _ Kf); exact: x_pos.
split.
- by change (0 <= w + weight b)%R; lra.
- by apply: measurable_funD => //; apply: measurable_funM => //; exact: measurable_fun_cst.
- by apply: measurable_funD => //; apply: measurable_funM => //; exact: measurable_fun_cst.
- move=> t; have [pp qp] := pos t; have [tp tq tpq] := tpos t.
  have a1 : (0 <= w * p_given (e0, e1) t)%R by apply: Rmult_le_pos; lra.
  have a2 : (0 <= w * q_given (e0, e1) t)%R by apply: Rmult_le_pos; lra.
  change [/\ (0 <= w * p_given (e0, e1) t + total p_given b t)%R, (0 <= w * q_given (e0, e1) t + total q_given b t)%R &
    (0 < w + weight b)%R -> (0 < w * p_given (e0, e1) t + total p_given b t)%R /\ (0 < w * q_given (e0, e1) t + total q_given b t)%R].
  split; [lra | lra |]. move=> h; case: (Req_dec w 0) => hw.
    by have [c1 c2] : (0 < total p_given b t)%R /\ (0 < total q_given b t)%R by [apply: tpq; lra]; split; lra.
  have b1 : (0 < w * p_given (e0, e1) t)%R by apply: Rmult_lt_0_compat; lra.
  have b2 : (0 < w * q_given (e0, e1) t)%R by apply: Rmult_lt_0_compat; lra. by split; lra.
exists (fun t => (w * g t + G t)%R); split.
- by apply: measurable_funD => //; apply: measurable_funM => //; exact: measurable_fun_cst.
- by move=> t; have := G0 t; have : (0 <= w * g t)%R by [apply: Rmult_le_pos]; lra.
- have wn : (0 <= (w : RR)%:E)%E by rewrite lee_fin; apply/RleP.
  have gn t : (0 <= (g t)%:E)%E by rewrite lee_fin; apply/RleP.
  have Gn t : (0 <= (G t)%:E)%E by rewrite lee_fin; apply/RleP.
  have mgE : measurable_fun setT (fun t => (g t)%:E) by exact/EFin_measurable_fun.
  have mGE : measurable_fun setT (fun t => (G t)%:E) by exact/EFin_measurable_fun.
  have -> : (\int[mu]_t ((w * g t + G t)%R : RR)%:E = (w : RR)%:E * \int[mu]_t (g t)%:E + \int[mu]_t (G t)%:E)%E.
    rewrite -(ge0_integralM mu measurableT mgE (fun t _ => gn t) wn).
    by rewrite -(ge0_integralD mu measurableT (fun t _ => mule_ge0 wn (gn t)) (measurable_funeM _ mgE) (fun t _ => Gn t) mGE).
  apply: (@le_trans _ _ ((w : RR)%:E * (step_of n dir f : RR)%:E + (weight b * step_of n dir f : R)%R%:E)%E).
    by apply: lee_add => //; apply: lee_wpmul2l.
  rewrite -EFinM -EFinD lee_fin; apply/RleP.
  by change (Rle (Rplus (Rmult w (step_of n dir f)) (Rmult (weight b) (step_of n dir f))) (Rmult (Rplus w (weight b)) (step_of n dir f))); lra.
- move=> t v0 m sup; have := sG t v0 m sup; have [pp qp] := pos t; rewrite gE.
  change (total p_given ((w, (e0, e1)) :: b)%list t) with (w * p_given (e0, e1) t + total p_given b t)%R.
  change (total q_given ((w, (e0, e1)) :: b)%list t) with (w * q_given (e0, e1) t + total q_given b t)%R.
  set p := p_given (e0, e1) t in pp *; set x := q_given (e0, e1) t in qp * => h.
  have v1 : (0 <= x / p)%R by apply: Rlt_le; exact: Rdiv_lt_0_compat.
  have := Rmult_le_compat_l p _ _ (Rlt_le _ _ pp) (sup (x / p)%R v1).
  have -> : (p * (f v0 + m * (x / p - v0)) = p * f v0 + m * (x - v0 * p))%R by field; lra.
  move=> h2; have := Rmult_le_compat_l w _ _ w0 h2; lra.
Qed.

Theorem batch_dominated (b : batch) : good b ->
  [/\ measurable_fun setT (P_batch b), measurable_fun setT (x_batch b), (forall t, 0 <= P_batch b t), (forall t, 0 <= x_batch b t) &
      forall f, falling_convex f -> (\int[mu]_t (P_batch b t * (f (x_batch b t) : RR))%:E <= (step_of n dir f : RR)%:E)%E].
Proof.
move=> [gb w1]; have w1' : weight b = 1%R by []. have [_ mp mq tpos _] := batch_sum (K_const 1 Rle_0_1) gb.
have pos t : (0 < total p_given b t)%R /\ (0 < total q_given b t)%R by have [_ _] := tpos t; apply; rewrite w1'; lra.
have mx : measurable_fun setT (x_batch b) by apply: measurable_funM => //; apply: m_inverse => // t; exact: (pos t).1.
have x0 t : (0 < x_batch b t)%R by apply: Rmult_lt_0_compat; [exact: (pos t).2 | apply: Rinv_0_lt_compat; exact: (pos t).1].
split=> //; [by move=> t; apply/RleP; apply: Rlt_le; exact: (pos t).1 | by move=> t; apply/RleP; exact: Rlt_le |].
move=> f /K_meaning Kf; have [_ _ _ _ [G [mG G0 iG sG]]] := batch_sum Kf gb.
rewrite w1' Rmult_1_l in iG; apply: (le_trans _ iG); apply: ge0_le_integral => //.
- by move=> t _; apply: (pf_ge0 t Kf) => u; apply/RleP; apply: Rlt_le; [exact: (pos u).1 | exact: x0].
- by apply: (m_pf Kf) => // u; apply/RleP; apply: Rlt_le; exact: x0.
- by move=> t _; rewrite lee_fin; apply/RleP.
- exact/EFin_measurable_fun.
move=> t _; rewrite lee_fin; apply/RleP. have [m sup] := support f (x_batch b t) Kf (x0 t).
have := sG t (x_batch b t) m sup; have [pt _] := pos t.
have -> : (total q_given b t - x_batch b t * total p_given b t = 0)%R by rewrite /x_batch; field; lra.
by change (Rle (total p_given b t * f (x_batch b t) + m * 0)%R (G t) -> Rle (total p_given b t * f (x_batch b t))%R (G t)); lra.
Qed.
End step.

(* More noise is no worse. *)
Theorem noise_mono (n n' : noise) dir f : rate n = rate n' -> (dev n <= dev n')%R -> K f -> (step_of n' dir f <= step_of n dir f)%R.
Proof.
move=> er sd Kf; have s0 := dev_ok n; have s0' := dev_ok n'; pose C := (dev n' / dev n)%R.
have C0 : (0 < C)%R by exact: Rdiv_lt_0_compat. have eC : (dev n * C)%R = dev n' by rewrite /C; field; lra.
have C1 : (1 * 1 <= C * C)%R.
  have h : (1 <= C)%R by apply: (Rmult_le_reg_r (dev n)) => //; rewrite /C; have -> : (dev n' / dev n * dev n = dev n')%R by [field; lra]; lra.
  by apply: Rmult_le_compat; lra.
have sh := coordinate (dev n') 0 1; rewrite -{1}eC in sh. have [_ _ pos [g [_ _ gE ig]]] := one_given dir C0 sh C1 Kf.
suff : ((step_of n' dir f : RR)%:E <= (step_of n dir f : RR)%:E)%E by rewrite lee_fin => /RleP.
apply: (le_trans _ ig); rewrite le_eqVlt; apply/orP; left; apply/eqP.
have fin := int_fin (P_all n' dir) (@m_x n' dir) (@x_pos n' dir) Kf.
rewrite /step_of /integral fineK // integral_weighted; last 2 first.
- exact: (mfX (@m_x n' dir) (@x_pos n' dir) Kf).
- by move=> t; exact: (fX0 (@x_pos n' dir) t Kf).
apply: eq_integral => t _; rewrite -EFinM; congr EFin; rewrite gE mulrC.
rewrite /x_of /dens_p /dens_q /p_given /q_given /with_coin /mixture /= er Rplus_0_l. by case: dir {pos g gE ig fin}.
Qed.
