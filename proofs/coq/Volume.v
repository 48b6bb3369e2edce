(* Lebesgue measure, and products of sigma-finite measures, are sigma-finite: mathcomp asks for it where it multiplies measures. *)
Require Import Evr.Setup.
Local Open Scope classical_set_scope. Local Open Scope ring_scope.

Lemma nat_above (r : R) : exists n : nat, (r < INR n)%R.
Proof.
have [H _] := archimed r; exists (Z.to_nat (up r)); case: (Z_le_gt_dec 0 (up r)) => h.
  by rewrite INR_IZR_INZ Z2Nat.id.
have : (IZR (up r) <= 0)%R by apply: IZR_le; lia.
by have := pos_INR (Z.to_nat (up r)); lra.
Qed.

Lemma leb_sigma_finite : sigma_finite setT leb.
Proof.
pose z : RR := 0; exists (fun n => `]- (n%:R : RR), (n%:R : RR)]%classic).
  apply/seteqP; split=> // x _; have [n nP] := nat_above (Rabs x); exists n => //=; rewrite in_itv /= -INRE.
  have h1 := Rle_abs x; have h2 := Rle_abs (- x)%R; rewrite Rabs_Ropp in h2.
  apply/andP; split; [apply/RltP | apply/RleP]; change (- INR n) with (Ropp (INR n)); lra.
move=> n; split; first exact: measurable_itv.
rewrite lebesgue_measure_itv hlength_itv /=; case: ifP => _; last exact: ltry.
by rewrite -EFinD ltry.
Qed.

Lemma prod_sigma_finite d1 d2 (T1 : measurableType d1) (T2 : measurableType d2) (m1 : {measure set T1 -> \bar RR})
  (m2 : {measure set T2 -> \bar RR}) (s1 : sigma_finite setT m1) (s2 : sigma_finite setT m2) : sigma_finite setT (product_measure1 m1 s2).
Proof.
move/sigma_finiteP : (s1) => [F1 F1_T [F1_nd F1_oo]].
move/sigma_finiteP : (s2) => [F2 F2_T [F2_nd F2_oo]].
exists (fun k => F1 k `*` F2 k).
  rewrite -setMTT F1_T F2_T predeqE => -[x y]; split.
    move=> [/= [k _ F1kx] [l _ F2ly]]; exists (maxn k l) => //; split.
    - by move: x F1kx; apply/subsetPset/F1_nd; rewrite leq_max leqnn.
    - by move: y F2ly; apply/subsetPset/F2_nd; rewrite leq_max leqnn orbT.
  by move=> [k _ [] /= ? ?]; split; exists k.
move=> k; have [mF1 f1] := F1_oo k; have [mF2 f2] := F2_oo k; split; first exact: measurableM.
by rewrite product_measure1E // lte_mul_pinfty // ge0_fin_numE.
Qed.
