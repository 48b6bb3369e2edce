(* T2 of Training.v: dpsgd_main. Also: what Training.v calls a probability is one (prob_all). *)
Require Import String Evr.Setup.
Require Import Evr.Order Evr.Measure Evr.Weighted Evr.Lebesgue Evr.Normal Evr.Square Evr.Gaussian Evr.Reader Evr.Judge Evr.Statement Evr.Main.
Require Import Evr.Sampled Evr.Rotation Evr.Spherical Evr.Batch Evr.Gradients.
Local Open Scope classical_set_scope. Local Open Scope ring_scope.

Lemma length2_stretch m a (v : vec m) : length2 (stretch a v) = (a * a * length2 v)%R.
Proof. by elim: m v => [|m IH] v /=; [|rewrite IH]; ring. Qed.
Lemma clip_length m C (v : vec m) : (0 < C)%R -> (length2 (clip C v) <= C * C)%R.
Proof.
move=> C0; rewrite /clip length2_stretch /factor; case: Rle_dec => h /=; first by lra.
have CC : (0 < C * C)%R by exact: Rmult_lt_0_compat.
have y0 : (0 < length2 v)%R by lra.
have s0 := sqrt_lt_R0 _ y0; have ss := sqrt_sqrt _ (Rlt_le _ _ y0).
have -> : (C / sqrt (length2 v) * (C / sqrt (length2 v)) * length2 v = C * C / (sqrt (length2 v) * sqrt (length2 v)) * length2 v)%R by field; lra.
by rewrite ss; apply: Req_le; field; lra.
Qed.
Lemma clip_short m C (v : vec m) : (length2 v <= C * C)%R -> clip C v = v.
Proof.
move=> h; rewrite /clip /factor; case: Rle_dec => //= _ {h}.
by elim: m v => [|m IH] v /=; [exact: Rmult_1_l | rewrite IH Rmult_1_l; case: v].
Qed.

Section measurable.
Context d (Z : measurableType d).
Lemma m_length2 m (v : Z -> vec m) : measurable_fun setT v -> measurable_fun setT ((fun z => length2 (v z)) : Z -> RR).
Proof.
elim: m v => [|m IH] v mv; first exact: (@measurable_funM _ Z RR setT (v : Z -> RR) (v : Z -> RR) mv mv).
have [v1 v2] := m_parts mv; apply: (@measurable_funD _ Z RR setT); last exact: IH.
exact: (@measurable_funM _ Z RR setT ((fun z => (v z).1) : Z -> RR) ((fun z => (v z).1) : Z -> RR) v1 v1).
Qed.
Lemma m_stretch m (a : Z -> RR) (v : Z -> vec m) : measurable_fun setT a -> measurable_fun setT v -> measurable_fun setT (fun z => stretch (a z) (v z)).
Proof.
elim: m v => [|m IH] v ma mv; first exact: (@measurable_funM _ Z RR setT a (v : Z -> RR) ma mv).
have [v1 v2] := m_parts mv; apply: (proj2 (@prod_measurable_funP _ _ _ Z line (vec m) _)); split; last exact: (IH _ ma v2).
exact: (@measurable_funM _ Z RR setT a ((fun z => (v z).1) : Z -> RR) ma v1).
Qed.
Lemma m_factor C : (0 < C)%R -> measurable_fun setT (factor C : RR -> RR).
Proof.
move=> C0; have CC : (0 < C * C)%R by exact: Rmult_lt_0_compat.
have dec x y : (x <= y)%R -> (factor C y <= factor C x)%R.
  move=> xy; rewrite /factor; case: (Rle_dec y) => hy; case: (Rle_dec x) => hx /=; try lra.
  - have s1 : (C <= sqrt y)%R by rewrite -(sqrt_square C); [apply: sqrt_le_1_alt; lra | lra].
    by apply: (Rmult_le_reg_r (sqrt y)); [lra | rewrite /Rdiv Rmult_assoc Rinv_l; lra].
  - have s1 : (0 < sqrt x)%R by apply: sqrt_lt_R0; lra.
    by apply: Rmult_le_compat_l; [lra | apply: Rinv_le_contravar => //; exact: sqrt_le_1_alt].
move=> mD; apply: (measurability (RGenOInfty.measurableE RR)) => //.
move=> /= _ [_ [r ->] <-]; rewrite setTI; apply: is_interval_measurable.
move=> a b /= fa fb c /andP[/RleP ac /RleP cb]; move: fa fb; rewrite /= !in_itv /= !andbT => /RltP fa /RltP fb; apply/RltP.
exact: (Rlt_le_trans _ _ _ fb (dec _ _ cb)).
Qed.
Lemma m_clip m C (v : Z -> vec m) : (0 < C)%R -> measurable_fun setT v -> measurable_fun setT (fun z => clip C (v z)).
Proof.
move=> C0 mv; apply: (@m_stretch m (fun z => factor C (length2 (v z)) : RR)) => //.
exact: (@measurable_fun_comp _ _ _ _ _ _ (factor C : RR -> RR) setT _ (m_factor C0) (m_length2 mv)).
Qed.
End measurable.

(* densities have mass 1 *)
Lemma normal_mass m s (c : vec m) : Rlt 0 s -> (\int[proj1_sig (volume m)]_t (normal s c t : RR)%:E = 1)%E.
Proof.
move=> s0; have [_ [y [_ _ _ _ P]]] := projected s0 (normal_shifted s c (zero m)).
have := P (fun _ => 1%E) (@measurable_fun_cst _ _ _ _ _ _) (fun _ => lee01).
under eq_integral do rewrite mul1e; move=> ->; under eq_integral do rewrite mul1e.
by have := @mass_all 0 s s0; rewrite /= /weighted.
Qed.
Lemma noisy_mass (n : noise) C m (gs : list (vec m)) (c : vec m) : (0 < C)%R ->
  (\int[proj1_sig (volume m)]_t (noisy_sum (rate n) (dev n * C) gs c t : RR)%:E = 1)%E.
Proof.
move=> C0; have [q0 q1] := rate_ok n.
have mN gs' c' : measurable_fun setT ((fun t : vec m => noisy_sum (rate n) (dev n * C) gs' c' t) : vec m -> RR).
  have := @m_noisy _ (vec m) m (rate n) (dev n * C)%R (vec m) gs' (fun _ g => g) (fun _ => c') (fun t => t) (fun x => measurable_fun_cst x) (measurable_fun_cst c') (@measurable_fun_id _ _ _).
  by rewrite (List.map_id gs').
have pN (gs' : list (vec m)) (c' t : vec m) : (0 <= (noisy_sum (rate n) (dev n * C) gs' c' t : RR)%:E)%E by rewrite lee_fin; apply/RleP; apply: Rlt_le; exact: noisy_pos.
elim: gs c => [|g gs IH] c; first by apply: normal_mass; exact: (Rmult_lt_0_compat _ _ (dev_ok n) C0).
have a0 : (0 <= ((1 - rate n)%R : RR)%:E)%E by rewrite lee_fin; apply/RleP; change (Rle 0 (Rminus 1 (rate n))); lra.
have b0 : (0 <= (rate n : RR)%:E)%E by rewrite lee_fin; apply/RleP.
have mE gs' c' : measurable_fun setT (fun t : vec m => (noisy_sum (rate n) (dev n * C) gs' c' t : RR)%:E) by apply/EFin_measurable_fun; exact: mN.
have -> : (fun t : vec m => (noisy_sum (rate n) (dev n * C) (g :: gs)%list c t : RR)%:E) = (fun t => ((1 - rate n)%R : RR)%:E * (noisy_sum (rate n) (dev n * C) gs c t : RR)%:E
  + (rate n : RR)%:E * (noisy_sum (rate n) (dev n * C) gs (sum c g) t : RR)%:E)%E by apply: funext => t; rewrite -!EFinM -EFinD.
rewrite (ge0_integralD _ measurableT (fun t _ => mule_ge0 a0 (pN _ _ t)) (measurable_funeM _ (mE _ _)) (fun t _ => mule_ge0 b0 (pN _ _ t)) (measurable_funeM _ (mE _ _))).
rewrite (ge0_integralM _ measurableT (mE _ _) (fun t _ => pN _ _ t) a0) (ge0_integralM _ measurableT (mE _ _) (fun t _ => pN _ _ t) b0) !IH !mule1 -EFinD; congr EFin.
by change (@eq R (1 - rate n + rate n) 1)%R; ring.
Qed.

Section training.
Variables (X : Type) (m : nat -> nat) (C : nat -> R) (n : nat -> noise).
Variables (d0 : measure_display) (T0 : measurableType d0) (rho : {measure set T0 -> \bar RR}).
Variable grad : forall k, hist m T0 k -> X -> vec (m k).
Hypotheses (C0 : forall k, (0 < C k)%R) (rho1 : rho setT = 1%E) (mg : measurable_grad grad).
Let cl := clipped_grad C grad.
Lemma cl_short : short C cl.
Proof. by move=> k h x; split; [exact: C0 | exact: clip_length]. Qed.
Lemma cl_measurable : measurable_grad cl.
Proof. by move=> k x; exact: (m_clip (C0 k) (mg x)). Qed.
Lemma prob_chance D k A : prob C n rho grad D (k := k) A = chance C n rho cl D A.
Proof. by []. Qed.

(* [prob] is a probability *)
Theorem prob_all (r : X) (D : list X) k : prob C n rho grad D [set: hist m T0 k] = 1%E.
Proof.
rewrite prob_chance /chance; elim: k => [|k IH].
  have -> : (fun h : T0 => (outs C n cl D (k := 0) h : RR)%:E) = cst 1%E by [].
  by rewrite integral_cst // rho1 mule1.
pose g (z : hist m T0 k * vec (m k)) : \bar RR := (outs C n cl D (k := k.+1) z : RR)%:E.
have mG : measurable_fun setT g by apply/EFin_measurable_fun; exact: (@m_outs X m C n d0 T0 cl cl_measurable D k.+1).
have g0 z : (0 <= g z)%E by rewrite lee_fin; apply/RleP; apply: Rlt_le; exact: (@outs_pos X m C n d0 T0 cl cl_short r D k.+1).
rewrite [LHS](fubini_tonelli1 (proj2_sig (volume (m k))) _ mG g0 (m1 := hist_volume m rho k)) -[RHS]IH.
apply: eq_integral => h _; rewrite /fubini_F /g /=.
have a0 : (0 <= (outs C n cl D h : RR)%:E)%E by rewrite lee_fin; apply/RleP; apply: Rlt_le; exact: (@outs_pos X m C n d0 T0 cl cl_short r D k).
under eq_integral do rewrite EFinM.
have ms : measurable_fun setT (fun u : vec (m k) => (noisy_sum (rate (n k)) (dev (n k) * C k) (List.map (cl h) D) (zero (m k)) u : RR)%:E).
  apply/EFin_measurable_fun; apply: (@m_noisy _ (vec (m k)) _ _ _ _ D (fun _ => cl h) (fun _ => zero (m k)) (fun u => u)).
  - by move=> x; exact: measurable_fun_cst.
  - exact: measurable_fun_cst.
  - exact: measurable_fun_id.
rewrite ge0_integralM //.
- by rewrite (noisy_mass (n k) _ _ (cl_short h r).1) mule1.
- by move=> u _; rewrite lee_fin; apply/RleP; apply: Rlt_le; exact: (noisy_pos (n k) (cl_short h r).1).
Qed.

(* a record whose gradients are 0 is as good as none *)
Lemma sum_zero k (c : vec k) : sum c (zero k) = c.
Proof. by elim: k c => [|k IH] c /=; [exact: Rplus_0_r | rewrite IH Rplus_0_r; case: c]. Qed.
Lemma clip_zero k (b : R) : clip b (zero k) = zero k.
Proof. by rewrite /clip; elim: k (factor _ _) => [|k IH] a /=; [exact: Rmult_0_r | rewrite IH Rmult_0_r]. Qed.
Lemma zeroed D1 D2 z k A : (forall k h, grad (k := k) h z = zero (m k)) -> prob C n rho grad (D1 ++ z :: D2)%list (k := k) A = prob C n rho grad (D1 ++ D2)%list A.
Proof.
move=> gz; rewrite /prob; apply: eq_integral => h _; congr EFin; elim: k h {A} => [//|k IH] h /=.
rewrite IH; congr Rmult; rewrite !List.map_app /= noisy_insert.
have -> : clipped_grad C grad h.1 z = zero (m k) by rewrite /clipped_grad gz clip_zero.
by rewrite sum_zero; ring.
Qed.

Theorem removed eps (de : R) N D1 D2 r A : measurable A -> (forall d, composed (fun k => step_of (n k) d) (List.seq 0 N) (excess eps) <= de)%R ->
  let P D := prob C n rho grad D (k := N) A in
  (P (D1 ++ r :: D2)%list <= (exp eps : RR)%:E * P (D1 ++ D2)%list + (de : RR)%:E)%E /\
  (P (D1 ++ D2)%list <= (exp eps : RR)%:E * P (D1 ++ r :: D2)%list + (de : RR)%:E)%E.
Proof.
move=> mA H P; have F dir := forward_private n rho1 cl_short cl_measurable D1 D2 r dir eps mA.
by split; [apply: (le_trans (F remove)) | apply: (le_trans (F add))]; apply: lee_add2l; rewrite lee_fin; apply/RleP; exact: H.
Qed.
End training.

Theorem dpsgd_main : dpsgd_is_private.
Proof.
move=> t F bounds Hj laws order Hlaws Ho X m C d0 T0 rho grad C0 rho1 mg N P d Y compute mc B mB D D' [D1 [D2 [r [-> Hrel]]]].
have mA : measurable (compute @^-1` B) by rewrite -[compute @^-1` B]setTI; exact: mc.
have H dir : (composed (fun k => step_of (laws (List.nth k order O)) dir) (List.seq 0 N) (excess (epsilon F)) <= delta F)%R.
  rewrite (composed_map (fun k => step_of (laws k) dir) (fun k => List.nth k order O)) nth_all.
  exact: (functional_main t F bounds laws dir order Hj Hlaws Ho).
have R := removed C0 rho1 mg D1 D2 r mA H.
case: Hrel => [[_ ->]|[_ [z [-> gz]]]]; first exact: R.
by rewrite /P (zeroed _ _ _ _ _ _ gz); exact: R.
Qed.
