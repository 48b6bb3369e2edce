(* Chances of tests of a step, and what they say of the integral of f(dQ/dP) against P: L1 and L3, on the measures of Training.v. *)
Require Import Evr.Setup.
Require Import Evr.Order Evr.Measure Evr.Weighted Evr.Lebesgue Evr.Normal Evr.Gaussian Evr.Statement Evr.Pair Evr.Sampled.
Require Import Evr.LowerScores Evr.LowerStep Evr.LowerStepSound.
Local Open Scope classical_set_scope. Local Open Scope ring_scope.

Section tests.
Variables (n : noise) (d : direction) (f : R -> R).
Hypothesis Kf : K f.
Let p := dens_p n d : RR -> RR.
Let q := dens_q n d : RR -> RR.
Let g (t : RR) : RR := Rmult (p t) (f (x_of n d t)).

Let mp : measurable_fun setT p. Proof. exact: m_p. Qed.
Let mq : measurable_fun setT q. Proof. by rewrite /q; case: d; [exact: (m_p n add) | exact: (m_p n remove)]. Qed.
Let p0 t : Rle 0 (p t). Proof. by apply: Rlt_le; exact: p_pos. Qed.
Let q0 t : Rle 0 (q t). Proof. by apply: Rlt_le; exact: q_pos. Qed.
Let f0 t : Rle 0 (f (x_of n d t)). Proof. by apply: (K_pos _ Kf); exact: x_pos. Qed.
Let g0 t : Rle 0 (g t). Proof. exact: Rmult_le_pos. Qed.
Let mg : measurable_fun setT g.
Proof.
apply: measurable_funM; first exact: m_p.
have -> : (fun t : RR => f (x_of n d t) : RR) = (fun x : RR => f (Rmax 0 x) : RR) \o (x_of n d).
  by apply: funext => t /=; rewrite Rmax_right //; exact: x_pos.
by apply: measurable_fun_comp; [exact: measurable_K | exact: m_x].
Qed.

Lemma whole_p : whole p setT = 1%E. Proof. exact: (P_all n d). Qed.
Lemma whole_q : whole q setT = 1%E. Proof. by rewrite /q; case: d; [exact: (P_all n add) | exact: (P_all n remove)]. Qed.
Lemma whole_g : whole g setT = (step_of n d f : RR)%:E.
Proof.
have fin := int_fin (P_all n d) (@m_x n d) (@x_pos n d) Kf. rewrite /step_of /integral fineK //; symmetry.
rewrite integral_weighted; last 2 first.
- exact: (mfX (@m_x n d) (@x_pos n d) Kf).
- by move=> t; exact: (fX0 (@x_pos n d) t Kf).
by apply: eq_integral => t _; rewrite -EFinM mulrC.
Qed.

Definition amount (h : RR -> RR) (E : set RR) : R := fine (whole h E).

Section parts.
Variables (h : RR -> RR) (v : R).
Hypotheses (mh : measurable_fun setT h) (h0 : forall t, Rle 0 (h t)) (hT : whole h setT = (v : RR)%:E).

Lemma amountE (E : set RR) : measurable E -> whole h E = (amount h E : RR)%:E.
Proof.
move=> mE; rewrite /amount fineK // ge0_fin_numE.
  by apply: (le_lt_trans (whole_sub mE mh h0)); rewrite hT ltry.
by apply: integral_ge0 => t _; rewrite lee_fin; apply/RleP.
Qed.
Lemma amount_split (E E' : set RR) : measurable E -> measurable E' -> E' `<=` E -> amount h E = Rplus (amount h (E `\` E')) (amount h E').
Proof.
move=> mE mE' sub; have mD : measurable (E `\` E') by exact: measurableD.
suff : whole h E = (whole h (E `\` E') + whole h E')%E by rewrite !amountE // -EFinD => -[].
have {1}-> : E = (E `\` E') `|` E'.
  by apply/seteqP; split=> t; [move=> Et; case: (pselect (E' t)); [right|left] | case=> [[]|/sub]].
rewrite /whole integral_setU //.
- by apply/measurable_funTS/EFin_measurable_fun.
- by move=> t _; rewrite lee_fin; apply/RleP.
- by apply/disj_set2P; rewrite -subset0 => t [] [].
Qed.
Lemma amount_0 : amount h set0 = 0%R.
Proof. by rewrite /amount /whole integral_set0. Qed.
Lemma amount_all : amount h setT = v.
Proof. by rewrite /amount hT. Qed.
End parts.

Let pE E := @amountE p 1 mp p0 whole_p E.
Let qE E := @amountE q 1 mq q0 whole_q E.
Let gE E := @amountE g _ mg g0 whole_g E.

(* Merging the outcomes of a set into one (L2 (ii)). *)
Lemma merging (E : set RR) m : measurable E -> Rlt 0 m -> Rle (amount q E) (Rmult m (amount p E)) -> Rle (Rmult (amount p E) (f m)) (amount g E).
Proof.
move=> mE m0 h; have [k [k0 line]] := supporting f m Kf m0.
have c0 : Rle 0 (Rplus (f m) (Rmult k m)).
  by apply: Rplus_le_le_0_compat; [apply: (K_pos _ Kf); exact: Rlt_le | apply: Rmult_le_pos => //; exact: Rlt_le].
have e1 := whole_scale mE mp p0 c0 (pE mE). have e2 := whole_scale mE mq q0 k0 (qE mE).
have mkq : measurable_fun setT ((fun t => Rmult k (q t)) : RR -> RR) by exact: m_cst_mul.
have kq0 t : Rle 0 (Rmult k (q t)) by exact: Rmult_le_pos.
have := whole_add mE mg mkq g0 kq0; rewrite (gE mE) e2 -EFinD => e3.
have mc : measurable_fun setT ((fun t => Rmult (Rplus (f m) (Rmult k m)) (p t)) : RR -> RR) by exact: m_cst_mul.
have ms : measurable_fun setT ((fun t => Rplus (g t) (Rmult k (q t))) : RR -> RR) by exact: measurable_funD.
have pw t : E t -> Rle (Rmult (Rplus (f m) (Rmult k m)) (p t)) (Rplus (g t) (Rmult k (q t))).
  move=> _; have pt := p_pos n d t.
  have e : Rmult (dens_p n d t) (x_of n d t) = dens_q n d t.
    change (Rmult (dens_p n d t) (Rdiv (dens_q n d t) (dens_p n d t)) = dens_q n d t); field; lra.
  have := Rmult_le_compat_l _ _ _ (p0 t) (line _ (@x_pos n d t)); rewrite /g /p /q -e.
  set P := dens_p n d t; set x := x_of n d t; lra.
have := whole_le mE mc ms (fun t => Rmult_le_pos _ _ c0 (p0 t)) pw; rewrite e1 e3 lee_fin => /RleP le1.
change (Rle (Rmult (Rplus (f m) (Rmult k m)) (amount p E)) (Rplus (amount g E) (Rmult k (amount q E)))) in le1.
have : Rle (Rmult k (amount q E)) (Rmult k (Rmult m (amount p E))) by exact: Rmult_le_compat_l.
lra.
Qed.

(* Sets of outcomes, each in the one before; the places are what is between them. *)
Variables (V : R) (X : Z -> R) (half_of : Z -> set RR).
Hypotheses (V0 : Rlt 0 V) (X0 : forall i, Rlt 0 (X i)) (mhalf : forall t, measurable (half_of t)).
Hypothesis down : forall t t', (t <= t')%Z -> half_of t' `<=` half_of t.

Theorem tests_below ps : forall ts l (E : set RR), measurable E -> not_falling ts = true ->
  match ts with nil => True | (t :: _)%list => half_of t `<=` E end ->
  enclosed V X (fun t => amount p (half_of t)) (fun t => amount q (half_of t)) (amount p E) (amount q E) ps ts l ->
  Rle (at_places X ps l f) (Rmult V (amount g E)).
Proof.
have g_pos (E : set RR) : Rle 0 (amount g E).
  by apply/RleP; apply: fine_ge0; apply: integral_ge0 => t _; rewrite lee_fin; apply/RleP.
have ends (E : set RR) : Rle 0 (Rmult V (amount g E)) by apply: Rmult_le_pos => //; exact: Rlt_le.
elim: ps => [|i ps IH] ts l E mE; first by case: l => [|a l] _ _ _ /=; exact: ends.
case: l => [|a l] sorted sub /=; first by move=> _; exact: ends.
set pb := match ts with nil => _ | _ => _ end; set qb := match ts with nil => _ | _ => _ end.
pose E' : set RR := match ts with nil => set0 | (t :: _)%list => half_of t end.
have mE' : measurable E' by rewrite /E'; case: (ts).
have sub' : E' `<=` E by rewrite /E'; case: (ts) sub => // _ t [].
have -> : pb = amount p E' by rewrite /pb /E'; case: (ts) => //; rewrite amount_0.
have -> : qb = amount q E' by rewrite /qb /E'; case: (ts) => //; rewrite amount_0.
move=> [[a0 ap] [aq [b0 [ab rest]]]].
have s1 := @amount_split p 1 mp p0 whole_p _ _ mE mE' sub'. have s2 := @amount_split q 1 mq q0 whole_q _ _ mE mE' sub'.
have s3 := @amount_split g _ mg g0 whole_g _ _ mE mE' sub'.
have {}rest : Rle (at_places X ps l f) (Rmult V (amount g E')).
  apply: (IH (List.tl ts)) => //.
  - by case: (ts) sorted => [//|t [//|t' ts']] /= /andP[].
  - rewrite /E'; case: (ts) sorted => [//|t [//|t' ts']] /= /andP[/Z.leb_le tt' _]; exact: down.
rewrite s3; suff : Rle (persp f (IZR a.1) (Rmult (X i) (IZR a.2))) (Rmult V (amount g (E `\` E'))) by lra.
have mD : measurable (E `\` E') by exact: measurableD.
case: a0 => [a0|a0]; last by rewrite -a0 persp_0; exact: ends.
case: b0 => [b0|b0]; last by have := ab (esym b0); lra.
set m := Rdiv (Rmult (X i) (IZR a.2)) (IZR a.1).
have m0 : Rlt 0 m by apply: Rdiv_lt_0_compat => //; exact: Rmult_lt_0_compat.
have em : Rmult m (IZR a.1) = Rmult (X i) (IZR a.2) by rewrite /m; field; lra.
have pD : Rle (IZR a.1) (Rmult V (amount p (E `\` E'))) by move: ap; rewrite s1; set u := amount p _; set w := amount p _; lra.
have qD : Rle (Rmult V (amount q (E `\` E'))) (Rmult m (IZR a.1)) by rewrite em; move: aq; rewrite s2; set u := amount q _; set w := amount q _; lra.
have mm : Rle (amount q (E `\` E')) (Rmult m (amount p (E `\` E'))).
  apply: (Rmult_le_reg_l V) => //; have := Rmult_le_compat_l _ _ _ (Rlt_le _ _ m0) pD; lra.
have fm0 : Rle 0 (f m) by apply: (K_pos _ Kf); exact: Rlt_le.
have := Rmult_le_compat_l _ _ _ (Rlt_le _ _ V0) (merging mD m0 mm).
have := Rmult_le_compat_r _ _ _ fm0 pD; rewrite /persp -/m; lra.
Qed.
End tests.

(* ---------- The chances of half-lines ---------- *)

(* The outcomes beyond t, in units of the noise, on a line on which losses rise. *)
Definition half_line (n : noise) (d : direction) (t : R) : set RR :=
  match d with remove => `](t * dev n)%R, +oo[%classic | add => `]-oo, (- (t * dev n))%R]%classic end.
Definition sign_of (d : direction) : Z := match d with remove => 1%Z | add => (-1)%Z end.

Section chances.
Variables (n : noise) (d : direction).
Let s0 : Rlt 0 (dev n) := dev_ok n.

Lemma m_half_line t : measurable (half_line n d t).
Proof. by rewrite /half_line; case: d; exact: measurable_itv. Qed.
Lemma half_line_down t t' : Rle t t' -> half_line n d t' `<=` half_line n d t.
Proof.
move=> tt'; have h : Rle (t * dev n)%R (t' * dev n)%R by apply: Rmult_le_compat_r => //; exact: Rlt_le.
rewrite /half_line; case: d => u /=; rewrite !in_itv /= ?andbT => /= hu.
- by apply: (le_lt_trans _ hu); apply/RleP.
- by apply: (le_trans hu); apply/RleP; lra.
Qed.
Lemma density_beyond c t : whole (density c (dev n)) (half_line n d t) = (Phi (IZR (sign_of d) * c / dev n - t)%R : RR)%:E.
Proof.
rewrite /half_line /whole; case: d.
- have := @mass_above c _ s0 (t * dev n)%R; rewrite /= /weighted => ->; congr EFin; rewrite -Phi_opp; congr Phi.
  rewrite /sign_of; field; lra.
- have := @mass_below c _ s0 (- (t * dev n))%R; rewrite /= /weighted => ->; congr EFin; congr Phi.
  rewrite /sign_of; field; lra.
Qed.

Variables (qn qd T : Z).
Hypothesis Hq : rate n = (IZR qn / IZR qd)%R.
Let half_of t := half_line n d (IZR t / IZR T)%R.

Lemma without_beyond t : whole (density 0 (dev n)) (half_of t) = (without T t : RR)%:E.
Proof. by rewrite density_beyond /without; congr (EFin (Phi _)); rewrite /Rdiv; ring. Qed.
Lemma moved_beyond t : whole (density 1 (dev n)) (half_of t) = (moved (sign_of d) T (dev n) t : RR)%:E.
Proof. by rewrite density_beyond /moved; congr (EFin (Phi _)); rewrite /Rdiv; ring. Qed.
Lemma with_beyond t : whole (mixture n) (half_of t) = (with_ qn qd (sign_of d) T (dev n) t : RR)%:E.
Proof.
have [q0 q1] := rate_ok n; have mh := m_half_line (IZR t / IZR T)%R.
have w0 u := Rlt_le _ _ (density_pos 0 (dev n) s0 u); have w1 u := Rlt_le _ _ (density_pos 1 (dev n) s0 u).
have r0 : Rle 0 (1 - rate n)%R by lra.
rewrite (whole_add mh (m_cst_mul _ (m_density 0 _)) (m_cst_mul _ (m_density 1 _))).
- rewrite (whole_scale mh (m_density 0 _) w0 r0 (without_beyond t)) (whole_scale mh (m_density 1 _) w1 q0 (moved_beyond t)).
  by rewrite -EFinD /with_ -Hq.
- by move=> u; exact: Rmult_le_pos.
- by move=> u; exact: Rmult_le_pos.
Qed.
End chances.

(* What is computed for a step that a file states says nothing untrue of it. *)
Theorem own_step den spacing up law kd tbits ts values n : own_scores den spacing up law kd tbits ts = Some values -> states law n ->
  let g := Step.k_grid kd in
  forall f, K f -> (at_places (StepSound.xp (IZR (Step.g_off g) / IZR den) (IZR spacing / IZR (den * Step.size g))) (Step.places g) values f <=
    IZR (2 ^ Step.k_vbits kd) * step_of n (if up then remove else add) f)%R.
Proof.
move=> E Hn g f Kf; have [qn [qd [Hq [Hvb [Htb [Hden [Hsorted]]]]]]] := own_scores_ok _ _ _ _ _ _ _ _ _ E Hn.
set d := if up then remove else add; set T := (2 ^ tbits)%Z => /=.
have -> : (if up then 1%Z else (-1)%Z) = sign_of d by rewrite /d; case: (up).
move=> [_ en]; have T0 : Rlt 0 (IZR T) by apply: IZR_lt; apply: Z.pow_pos_nonneg; lia.
pose half_of t := half_line n d (IZR t / IZR T)%R.
have Ep : (fun t => amount (dens_p n d) (half_of t)) = (fun t => chance_p qn qd (sign_of d) T (dev n) up t).
  apply: funext => t; rewrite /amount /chance_p /half_of /d; case: (up).
  - by have -> := @with_beyond n remove qn qd T Hq t.
  - by have -> := @without_beyond n add T t.
have Eq : (fun t => amount (dens_q n d) (half_of t)) = (fun t => chance_q qn qd (sign_of d) T (dev n) up t).
  apply: funext => t; rewrite /amount /chance_q /half_of /d; case: (up).
  - by have -> := @without_beyond n remove T t.
  - by have -> := @with_beyond n add qn qd T Hq t.
have V0 : Rlt 0 (IZR (2 ^ Step.k_vbits kd)).
  by apply: IZR_lt; apply: Z.pow_pos_nonneg; [lia | exact: Hvb].
have ap : amount (dens_p n d) setT = 1%R by rewrite /amount whole_p.
have aq : amount (dens_q n d) setT = 1%R by rewrite /amount whole_q.
have X0 i : Rlt 0 (StepSound.xp (IZR (Step.g_off g) / IZR den) (IZR spacing / IZR (den * Step.size g)) i) by exact: exp_pos.
have down t t' : (t <= t')%Z -> half_of t' `<=` half_of t.
  by move=> /IZR_le tt'; apply: half_line_down; apply: Rmult_le_compat_r => //; apply: Rlt_le; exact: Rinv_0_lt_compat.
rewrite -Ep -Eq -{1}ap -aq in en.
have := @tests_below n d f Kf _ _ half_of V0 X0 (fun t => m_half_line n d _) down _ ts values setT measurableT Hsorted _ en.
rewrite {1}/amount (whole_g n d Kf); apply; by case: (ts).
Qed.
