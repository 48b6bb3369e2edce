(* The normal law as a measure on the line: its masses on half-lines. *)
Require Import Evr.Setup.
Require Import Evr.Volume Evr.Weighted Evr.Lebesgue Evr.Normal.
Local Open Scope classical_set_scope. Local Open Scope ring_scope.

Notation line := (measurableTypeR RR).

Lemma continuous_measurable (f : R -> R) : (forall t, continuity_pt f t) -> measurable_fun setT (f : RR -> RR).
Proof. by move=> cf; apply: continuous_measurable_fun => t; apply/continuity_pt_cvg; exact: cf. Qed.

Section normal.
Variables (c s : R).
Hypothesis s0 : Rlt 0 s.

Lemma m_density : measurable_fun setT (density c s : RR -> RR).
Proof. by apply: continuous_measurable => t; exact: density_cont. Qed.
Lemma density_ge0 (t : RR) : 0 <= (density c s t : RR).
Proof. by apply/RleP; apply: Rlt_le; exact: density_pos. Qed.

Let w := [the measure _ _ of weighted lebesgue_measure m_density density_ge0].
Let F (t : R) : R := Phi (Rdiv (Rminus t c) s).

Lemma F_incr x y : Rle x y -> Rle (F x) (F y).
Proof.
move=> xy; apply: Phi_incr; apply: Rmult_le_compat_r; last lra. by apply: Rlt_le; exact: Rinv_0_lt_compat.
Qed.

Lemma mass_between (x y : RR) : Rle x y -> w `]x, y]%classic = (Rminus (F y) (F x) : RR)%:E.
Proof.
move=> xy; rewrite /w /= /weighted.
exact: (ftc m_density density_ge0 (density_primitive c s s0) (density_lipschitz c s s0) xy).
Qed.

Lemma mass_union (a b : nat -> RR) (v : R) :
  (forall n, Rle (a n) (b n)) -> (forall n, Rle (a n.+1) (a n)) -> (forall n, Rle (b n) (b n.+1)) ->
  (forall n, Rle (Rminus (F (b n)) (F (a n))) v) ->
  (forall B, (forall n, Rle (Rminus (F (b n)) (F (a n))) B) -> Rle v B) ->
  w (\bigcup_n `]a n, b n]%classic) = (v : RR)%:E.
Proof.
move=> ab da ib up least. have mI n : measurable (`]a n, b n]%classic : set RR) by exact: measurable_itv.
have mU : measurable (\bigcup_n (`]a n, b n]%classic : set RR)) by apply: bigcup_measurable => n _; exact: mI.
have nd : nondecreasing_seq (fun n => `]a n, b n]%classic : set RR).
  apply/nondecreasing_seqP => n; apply/subsetPset => t /=; rewrite !in_itv /= => /andP[h1 h2].
  apply/andP; split; first by apply: le_lt_trans h1; apply/RleP. by apply: (le_trans h2); apply/RleP.
have cv := nondecreasing_cvg_mu mI mU nd (mu := w).
have e n : (w \o (fun n => `]a n, b n]%classic : set RR)) n = (Rminus (F (b n)) (F (a n)) : RR)%:E by exact: mass_between.
have le1 : (w (\bigcup_n `]a n, b n]%classic) <= (v : RR)%:E)%E.
  rewrite -(cvg_lim _ cv) //; apply: lime_le; first by apply/cvg_ex; eexists; exact: cv.
  by apply: nearW => n; rewrite e lee_fin; apply/RleP.
have fin : w (\bigcup_n `]a n, b n]%classic) \is a fin_num.
  by rewrite ge0_fin_numE ?measure_ge0 //; apply: (le_lt_trans le1); exact: ltry.
apply/eqP; rewrite eq_le le1 /= -(fineK fin) lee_fin; apply/RleP; apply: least => n.
apply/RleP; rewrite -lee_fin fineK // -e /=; apply: le_measure.
- by rewrite inE; exact: mI.
- by rewrite inE; exact: mU.
- by move=> t tE; exists n.
Qed.

Lemma mass_above (x : RR) : w `]x, +oo[%classic = (Rminus 1 (F x) : RR)%:E.
Proof.
rewrite itv_bnd_infty_bigcup; apply: (mass_union (a := fun _ => x) (b := fun k => x + k%:R)).
- by move=> n; apply/RleP; rewrite ler_addl.
- by move=> n; exact: Rle_refl.
- by move=> n; apply/RleP; rewrite ler_add2l ler_nat.
- by move=> n; apply: (Rplus_le_compat_r (Ropp (F x))); exact: Phi_le1.
- move=> B h; suff : Rle 1 (Rplus B (F x)) by lra.
  apply: Phi_sup => y; have [n [nP _]] : exists n : nat, Rle (Rminus (Rplus (Rmult y s) c) x) (INR n) /\ True.
    have [z zP] := nat_above (Rminus (Rplus (Rmult y s) c) x); exists z; split=> //; lra.
  pose z : RR := x + n%:R; have hz : Rle (Rminus (F z) (F x)) B by exact: (h n).
  have zE : z = Rplus x (INR n) by rewrite INRE. have : Rle (Phi y) (F z); last by lra.
  have -> : y = Rdiv (Rminus (Rplus (Rmult y s) c) c) s by field; lra. by apply: F_incr; rewrite zE; lra.
Qed.

Lemma mass_below (x : RR) : w `]-oo, x]%classic = (F x : RR)%:E.
Proof.
have -> : `]-oo, x]%classic = \bigcup_n `]x - n%:R, x]%classic :> set RR.
  apply/seteqP; split=> t /=; rewrite in_itv /=.
    move=> tx; have [n nP] := nat_above (Rminus x t); exists n => //=; rewrite in_itv /= tx andbT.
    by apply/RltP; rewrite INRE in nP; change (x - n%:R) with (Rminus x n%:R); lra.
  by case=> n _ /=; rewrite in_itv /= => /andP[].
apply: (mass_union (a := fun k => x - k%:R) (b := fun _ => x)).
- by move=> n; apply/RleP; rewrite ler_subl_addr ler_addl.
- by move=> n; apply/RleP; rewrite ler_sub // ler_nat.
- by move=> n; exact: Rle_refl.
- move=> n; pose z : RR := x - n%:R; have : Rle 0 (F z) by exact: Phi_nonneg.
  by rewrite -/z; lra.
- move=> B h; suff : Rle (Rminus (F x) B) 0 by lra.
  apply: Phi_inf => y; have [n nP] := nat_above (Rminus x (Rplus (Rmult y s) c)).
  pose z : RR := x - n%:R; have hz : Rle (Rminus (F x) (F z)) B by exact: (h n).
  have zE : z = Rminus x (INR n) by rewrite INRE. have : Rle (F z) (Phi y); last by lra.
  have -> : y = Rdiv (Rminus (Rplus (Rmult y s) c) c) s by field; lra. by apply: F_incr; rewrite zE; lra.
Qed.

Lemma mass_all : w setT = 1%E.
Proof.
pose z : RR := 0. have -> : [set: RR] = `]-oo, z]%classic `|` `]z, +oo[%classic.
  by apply/seteqP; split=> // t _ /=; rewrite !in_itv /= andbT; case: (leP t z); auto.
have -> : w (`]-oo, z]%classic `|` `]z, +oo[%classic) = (w `]-oo, z]%classic + w `]z, +oo[%classic)%E.
  apply: measureU; try exact: measurable_itv. apply/seteqP; split=> // t [] /=; rewrite !in_itv /= andbT => h1 h2.
  by move: (le_lt_trans h1 h2); rewrite ltxx.
rewrite (mass_below z) (mass_above z) -EFinD; congr EFin. by change (Rplus (F z) (Rminus (IZR 1) (F z)) = IZR 1); ring.
Qed.
End normal.

(* Z of the density is the integral of e^(-t^2/2). *)
Lemma Z_integral : (\int[leb]_t (gauss t : RR)%:E = (2 * half_Z : R)%R%:E)%E.
Proof.
have hz := half_Z_pos; have s0 : Rlt 0 1 := Rlt_0_1. have := @mass_all 0%R 1%R s0; rewrite /= /weighted => h.
have z0 : (0 <= ((2 * half_Z)%R : RR)%:E)%E.
  by rewrite lee_fin; apply/RleP; change (Rle 0 (Rmult 2 half_Z)); lra.
have : (((2 * half_Z)%R : RR)%:E * \int[leb]_t (density 0 1 t : RR)%:E = ((2 * half_Z)%R : RR)%:E)%E by rewrite h mule1.
have md : measurable_fun setT (fun t : RR => (density 0 1 t : RR)%:E) by apply/EFin_measurable_fun; exact: m_density.
have pd (t : RR) : (0 <= (density 0 1 t : RR)%:E)%E by rewrite lee_fin; exact: (density_ge0 0 s0).
rewrite -(ge0_integralM leb measurableT md (fun t _ => pd t) z0).
move=> <-; apply: eq_integral => t _; rewrite -EFinM; congr EFin.
change (gauss t = Rmult (2 * half_Z)%R (gauss ((t - 0) / 1) / (1 * (2 * half_Z)))%R).
have -> : ((t - 0) / 1 = t)%R by field. by field; lra.
Qed.
