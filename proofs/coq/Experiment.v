(* [normal s c] is the law of c + z, z of the law [normal s 0]: noise is added to c. *)
Require Import Evr.Setup.
Require Import Evr.Normal Evr.Square Evr.Gaussian Evr.Statement Evr.Sampled Evr.Rotation Evr.Spherical Evr.Batch Evr.Gradients.
Local Open Scope classical_set_scope. Local Open Scope ring_scope.

Lemma line_law s (c : RR) (g : line -> \bar RR) : Rlt 0 s -> measurable_fun setT g -> (forall t, 0 <= g t)%E ->
  (\int[leb]_t (g t * (density c s t : RR)%:E) = \int[leb]_z (g (c + z)%R * (density 0 s z : RR)%:E))%E.
Proof.
move=> s0 mg g0; pose h (t : RR) := (g t * (density c s t : RR)%:E)%E.
have mh : measurable_fun setT h by apply: emeasurable_funM => //; apply/EFin_measurable_fun; exact: m_density.
have h0 t : (0 <= h t)%E by apply: mule_ge0 => //; rewrite lee_fin; exact: density_ge0.
have n1 : (1 : RR) != 0 by exact: oner_neq0.
rewrite [LHS](leb_affine (c : RR) n1 mh h0) normr1 mul1e; apply: eq_integral => z _; rewrite /h /affine mul1r.
have -> : density c s (z + c) = density 0 s z.
  by have := @density_turned 1 c s z s0 (Rmult_1_l _); rewrite Rmult_1_l.
by congr (g _ * _)%E; exact: Rplus_comm.
Qed.

Theorem normal_law m s (c : vec m) (g : vec m -> \bar RR) : Rlt 0 s -> measurable_fun setT g -> (forall t, 0 <= g t)%E ->
  (\int[proj1_sig (volume m)]_t (g t * (normal s c t : RR)%:E) = \int[proj1_sig (volume m)]_z (g (sum c z) * (normal s (zero m) z : RR)%:E))%E.
Proof.
move=> s0; elim: m c g => [|m IH] c g mg g0; first by rewrite !normal_line; exact: line_law.
have s2 := proj2_sig (volume m).
have n0 k (a b : vec k) : (0 <= (normal s a b : RR)%:E)%E by rewrite lee_fin; apply/RleP; apply: Rlt_le; exact: normal_pos.
have d0 (a b : RR) : (0 <= (density a s b : RR)%:E)%E by rewrite lee_fin; exact: density_ge0.
have mn k (a : vec k) : measurable_fun setT ((fun t => normal s a t) : vec k -> RR).
  by apply: (@m_normal _ (vec k)); [exact: measurable_fun_cst | exact: measurable_fun_id].
have msum k (a : vec k) : measurable_fun setT (fun z => sum a z).
  by apply: (@m_sum _ (vec k)); [exact: measurable_fun_cst | exact: measurable_fun_id].
have split_ (a : vec m.+1) (G : line * vec m -> \bar RR) : measurable_fun setT G -> (forall z, 0 <= G z)%E ->
   (\int[proj1_sig (volume m.+1)]_z (G z * (normal s a z : RR)%:E) =
    \int[leb]_x ((\int[proj1_sig (volume m)]_y (G (x, y) * (normal s a.2 y : RR)%:E)) * (density a.1 s x : RR)%:E))%E.
  move=> mG G0; pose H (z : line * vec m) := (G z * (normal s a z : RR)%:E)%E.
  have mH : measurable_fun setT H by apply: emeasurable_funM => //; apply/EFin_measurable_fun; exact: (mn m.+1 a).
  rewrite [LHS](fubini_tonelli1 (proj2_sig (volume m)) _ mH (fun z => mule_ge0 (G0 z) (n0 m.+1 a z)) (m1 := leb)).
  apply: eq_integral => x _; rewrite /fubini_F /H normal_more /= muleC.
  have mGx : measurable_fun setT (fun y => G (x, y)).
    by apply: (@measurable_fun_comp _ _ _ _ _ _ G setT (fun y => (x, y)) mG); apply/prod_measurable_funP; split; [exact: measurable_fun_cst | exact: measurable_fun_id].
  rewrite -ge0_integralM //.
  - by apply: eq_integral => y _; rewrite EFinM muleCA.
  - by apply: emeasurable_funM => //; apply/EFin_measurable_fun; exact: mn.
  - by move=> y _; apply: mule_ge0.
rewrite [LHS](split_ c g mg g0).
pose g' (x : line) := (\int[proj1_sig (volume m)]_y (g (x, sum c.2 y) * (normal s (zero m) y : RR)%:E))%E.
pose gc (z : line * vec m) : \bar RR := (g (z.1, sum c.2 z.2)). have mgc : measurable_fun setT gc.
  apply: (@measurable_fun_comp _ _ _ _ _ _ g setT (fun z : line * vec m => (z.1, sum c.2 z.2)) mg).
  apply/prod_measurable_funP; split; first exact: (m_on_fst (@measurable_fun_id _ _ _)). exact: (m_on_snd (msum m c.2)).
have mK : measurable_fun setT (fun z : line * vec m => (gc z * (normal s (zero m) z.2 : RR)%:E)%E).
  by apply: emeasurable_funM => //; apply/EFin_measurable_fun; exact: (m_on_snd (mn m (zero m))).
have mg' : measurable_fun setT g'.
  by have := measurable_fun_fubini_tonelli_F (proj2_sig (volume m)) _ mK (fun z => mule_ge0 (g0 _) (n0 _ _ _)).
have g'0 x : (0 <= g' x)%E by apply: integral_ge0 => y _; apply: mule_ge0.
transitivity (\int[leb]_x (g' x * (density c.1 s x : RR)%:E))%E.
  apply: eq_integral => x _; congr (_ * _)%E; rewrite /g'. apply: (IH c.2 (fun y => g (x, y))) => // .
  by apply: (@measurable_fun_comp _ _ _ _ _ _ g setT (fun y => (x, y)) mg); apply/prod_measurable_funP; split; [exact: measurable_fun_cst | exact: measurable_fun_id].
rewrite (line_law c.1 s0 mg' g'0).
have mgs : measurable_fun setT (fun z : line * vec m => g (sum (c : vec m.+1) (z : vec m.+1))).
  exact: (@measurable_fun_comp _ _ _ _ _ _ g setT _ mg (msum m.+1 c)).
by rewrite [RHS](split_ (zero m.+1) _ mgs (fun z => g0 _)).
Qed.

(* The experiment: a coin for each vector, z of the law N(0, s^2 I), and a look at c + the drawn vectors + z. *)
Fixpoint looked (m : nat) (q s : R) (gs : list (vec m)) (c : vec m) (g : vec m -> \bar RR) : \bar RR :=
  match gs with
  | nil => (\int[proj1_sig (volume m)]_z (g (sum c z) * (normal s (zero m) z : RR)%:E))%E
  | (v :: gs')%list => (((1 - q)%R : RR)%:E * looked q s gs' c g + (q : RR)%:E * looked q s gs' (sum c v) g)%E
  end.
Theorem noisy_law (n : noise) C m (gs : list (vec m)) (c : vec m) (g : vec m -> \bar RR) : (0 < C)%R ->
  measurable_fun setT g -> (forall t, 0 <= g t)%E ->
  (\int[proj1_sig (volume m)]_t (g t * (noisy_sum (rate n) (dev n * C) gs c t : RR)%:E) = looked (rate n) (dev n * C) gs c g)%E.
Proof.
move=> C0 mg g0; have [q0 q1] := rate_ok n.
have mE (gs' : list (vec m)) (c' : vec m) : measurable_fun setT (fun t : vec m => (g t * (noisy_sum (rate n) (dev n * C) gs' c' t : RR)%:E)%E).
  apply: emeasurable_funM => //; apply/EFin_measurable_fun.
  have := @m_noisy _ (vec m) m (rate n) (dev n * C)%R (vec m) gs' (fun _ g => g) (fun _ => c') (fun t => t) (fun x => measurable_fun_cst x) (measurable_fun_cst c') (@measurable_fun_id _ _ _).
  by rewrite (List.map_id gs').
have pN (gs' : list (vec m)) (c' t : vec m) : (0 <= g t * (noisy_sum (rate n) (dev n * C) gs' c' t : RR)%:E)%E.
  by apply: mule_ge0 => //; rewrite lee_fin; apply/RleP; apply: Rlt_le; exact: noisy_pos.
elim: gs c => [|v gs IH] c; first by apply: normal_law => //; exact: (Rmult_lt_0_compat _ _ (dev_ok n) C0).
have a0 : (0 <= ((1 - rate n)%R : RR)%:E)%E by rewrite lee_fin; apply/RleP; change (Rle 0 (Rminus 1 (rate n))); lra.
have b0 : (0 <= (rate n : RR)%:E)%E by rewrite lee_fin; apply/RleP.
have e1 (c' t : vec m) : (0 <= (noisy_sum (rate n) (dev n * C) gs c' t : RR)%:E)%E by rewrite lee_fin; apply/RleP; apply: Rlt_le; exact: noisy_pos.
have -> : (fun t : vec m => g t * (noisy_sum (rate n) (dev n * C) (v :: gs)%list c t : RR)%:E)%E =
  (fun t => ((1 - rate n)%R : RR)%:E * (g t * (noisy_sum (rate n) (dev n * C) gs c t : RR)%:E)
  + (rate n : RR)%:E * (g t * (noisy_sum (rate n) (dev n * C) gs (sum c v) t : RR)%:E))%E.
  apply: funext => t; rewrite /= EFinD !EFinM ge0_muleDr; last 2 first.
  - exact: mule_ge0.
  - exact: mule_ge0.
  by rewrite (muleCA (g t)) (muleCA (g t) (rate n : RR)%:E).
rewrite (ge0_integralD _ measurableT (fun t _ => mule_ge0 a0 (pN _ _ t)) (measurable_funeM _ (mE _ _)) (fun t _ => mule_ge0 b0 (pN _ _ t)) (measurable_funeM _ (mE _ _))).
by rewrite (ge0_integralM _ measurableT (mE _ _) (fun t _ => pN _ _ t) a0) (ge0_integralM _ measurableT (mE _ _) (fun t _ => pN _ _ t) b0) !IH.
Qed.
