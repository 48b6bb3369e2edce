(* The integers of Enclose.v bound what they say. *)
Require Import Reals ZArith List Bool Lra Lia.
Require Import Evr.Integers Evr.Masses Evr.Powers Evr.Normal Evr.Enclose.
Import ListNotations.
Open Scope R_scope.

Lemma fdiv_le a b : (0 < b)%Z -> IZR (a / b) <= IZR a / IZR b.
Proof.
  intros Hb. pose proof (div_le a b Hb). assert (0 < IZR b) by (apply IZR_lt; auto).
  apply Rmult_le_reg_r with (IZR b); auto. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra.
Qed.
Lemma le_cdivR a b : (0 < b)%Z -> IZR a / IZR b <= IZR (cdiv a b).
Proof.
  intros Hb. pose proof (le_cdiv a b Hb). assert (0 < IZR b) by (apply IZR_lt; auto).
  apply Rmult_le_reg_r with (IZR b); auto. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra.
Qed.
Lemma max0 a : IZR (Z.max 0 a) = Rmax 0 (IZR a).
Proof.
  destruct (Z.max_spec 0 a) as [[H ->]|[H ->]]; apply IZR_lt in H || apply IZR_le in H.
  - rewrite Rmax_right; lra. - rewrite Rmax_left; lra.
Qed.
Lemma quot_le a b c d : 0 <= c -> 0 < b -> 0 < d -> a * d <= c * b -> a / b <= c / d.
Proof.
  intros. apply Rmult_le_reg_r with (b * d). apply Rmult_lt_0_compat; auto.
  replace (a / b * (b * d)) with (a * d) by (field; lra). replace (c / d * (b * d)) with (c * b) by (field; lra). auto.
Qed.

Lemma pair_eq A B (a c : A) (b d : B) : (a, b) = (c, d) -> a = c /\ b = d.
Proof. intros E. split; congruence. Qed.
Lemma some_pair A B (a c : A) (b d : B) : Some (a, b) = Some (c, d) -> a = c /\ b = d.
Proof. intros E. split; congruence. Qed.

Section sound.
  Variables (B M : Z) (fuel0 : nat).
  Hypotheses (HB : (0 <= B)%Z) (EM : M = (2 ^ B)%Z).
  Let HM : (0 < M)%Z.
  Proof. rewrite EM. apply Z.pow_pos_nonneg; lia. Qed.
  Let MR : 0 < IZR M.
  Proof. apply IZR_lt; auto. Qed.

  (* shifts are divisions *)
  Lemma shr_e x : shr B x = (x / M)%Z.
  Proof. unfold shr. rewrite Z.shiftr_div_pow2, EM by auto. reflexivity. Qed.
  Lemma shr_le x : IZR (shr B x) <= IZR x / IZR M.
  Proof. rewrite shr_e. apply fdiv_le; auto. Qed.
  Lemma le_csh x : IZR x / IZR M <= IZR (csh B x).
  Proof.
    unfold csh. fold (shr B (- x)). rewrite shr_e, opp_IZR. pose proof (fdiv_le (- x) M HM) as H. rewrite opp_IZR in H.
    replace (- IZR x / IZR M) with (- (IZR x / IZR M)) in H by (field; lra). lra.
  Qed.
  (* one term from the one before *)
  Lemma next_ok u T n ul uh tl th : 0 <= u -> 0 <= T -> 0 <= IZR ul <= IZR M * u -> IZR M * u <= IZR uh ->
    0 <= IZR tl <= IZR M * T -> IZR M * T <= IZR th -> let j := (Z.of_nat n + 1)%Z in
    0 <= IZR (shr B (tl * ul) / j) <= IZR M * (T * u / INR (S n)) /\ IZR M * (T * u / INR (S n)) <= IZR (cdiv (csh B (th * uh)) j).
  Proof.
    intros Hu HT Hul Huh Htl Hth j. assert (Hj : (0 < j)%Z) by lia.
    assert (EJ : IZR j = INR (S n)) by (rewrite INR_IZR_INZ; f_equal; lia).
    assert (HJ : 0 < INR (S n)) by (apply lt_0_INR; lia).
    assert (E : IZR M * (T * u / INR (S n)) = (IZR M * T) * (IZR M * u) / IZR M / INR (S n)) by (field; lra).
    assert (I : 0 < / INR (S n)) by (apply Rinv_0_lt_compat; auto). assert (I' : 0 < / IZR M) by (apply Rinv_0_lt_compat; auto).
    repeat split.
    - apply IZR_le. apply Z.div_pos; auto. rewrite shr_e. apply Z.div_pos; auto. apply Z.mul_nonneg_nonneg; apply le_IZR; tauto.
    - rewrite E. eapply Rle_trans; [apply fdiv_le; auto|]. rewrite EJ. apply Rmult_le_compat_r; [lra|].
      eapply Rle_trans; [apply shr_le|]. rewrite mult_IZR. apply Rmult_le_compat_r; [lra|]. apply Rmult_le_compat; lra.
    - rewrite E. eapply Rle_trans; [|apply le_cdivR; auto]. rewrite EJ. apply Rmult_le_compat_r; [lra|].
      eapply Rle_trans; [|apply le_csh]. rewrite mult_IZR. apply Rmult_le_compat_r; [lra|].
      apply Rmult_le_compat; try lra; apply Rmult_le_pos; lra.
  Qed.

  Lemma exp_terms_ok u ul uh : 0 <= u -> 0 <= IZR ul <= IZR M * u -> IZR M * u <= IZR uh ->
    forall fuel n tl th sl sh minus lo hi,
    0 <= IZR tl <= IZR M * eterm u n -> IZR M * eterm u n <= IZR th ->
    IZR sl <= IZR M * esum u n <= IZR sh -> (-1) ^ n = (if minus : bool then -1 else 1) ->
    exp_terms B fuel ul uh (Z.of_nat n) tl th sl sh minus = (lo, hi) -> IZR lo <= IZR M * exp (- u) <= IZR hi.
  Proof.
    intros Hu Hul Huh. induction fuel; intros n tl th sl sh minus lo hi Htl Hth Hs Hsign E.
    all: pose proof (eterm_pos u n Hu) as HT; pose proof (exp_series n u Hu) as [S1 S2].
    all: assert (IZR M * - eterm u n <= IZR M * (exp (- u) - esum u n) <= IZR M * eterm u n) by (split; apply Rmult_le_compat_l; lra).
    all: assert (Hend : IZR (sl - th) <= IZR M * exp (- u) <= IZR (sh + th)) by (rewrite minus_IZR, plus_IZR; lra).
    - simpl in E. apply pair_eq in E as [<- <-]. auto.
    - cbn [exp_terms] in E. destruct (Z.leb_spec th 1). apply pair_eq in E as [<- <-]; auto.
      destruct (next_ok u (eterm u n) n ul uh tl th Hu HT Hul Huh Htl Hth) as [N1 N2].
      assert (Hes : esum u (S n) = esum u n + (-1) ^ n * eterm u n) by reflexivity.
      destruct (if minus then ((sl - th)%Z, (sh - tl)%Z) else ((sl + tl)%Z, (sh + th)%Z)) as [sl' sh'] eqn:ES.
      replace (Z.of_nat n + 1)%Z with (Z.of_nat (S n)) in * by lia.
      apply (IHfuel (S n) _ _ _ _ _ _ _) with (5 := E); auto.
      + rewrite Hes, Hsign. destruct minus; apply pair_eq in ES as [<- <-]; rewrite ?minus_IZR, ?plus_IZR; lra.
      + simpl. rewrite Hsign. destruct minus; simpl; lra.
  Qed.
  Lemma squares_ok j : forall lo hi a b x, 0 <= IZR lo <= IZR M * exp (x / 2 ^ j) -> IZR M * exp (x / 2 ^ j) <= IZR hi ->
    squares B j lo hi = (a, b) -> 0 <= IZR a <= IZR M * exp x /\ IZR M * exp x <= IZR b.
  Proof.
    assert (I' : 0 < / IZR M) by (apply Rinv_0_lt_compat; auto). induction j; intros lo hi a b x Hlo Hhi E.
    - simpl in *. apply pair_eq in E as [<- <-]. replace (x / 1) with x in * by field. lra.
    - cbn [squares] in E. pose proof (exp_pos (x / 2 ^ S j)) as P.
      assert (HP : 0 < 2 ^ j) by (apply pow_lt; lra).
      assert (E2 : IZR M * exp (x / 2 ^ j) = (IZR M * exp (x / 2 ^ S j)) * (IZR M * exp (x / 2 ^ S j)) / IZR M).
      { replace (x / 2 ^ j) with (x / 2 ^ S j + x / 2 ^ S j) by (simpl; field; lra). rewrite exp_plus. field. lra. }
      apply (IHj _ _ _ _ x) with (3 := E); rewrite E2.
      + split.
        * apply IZR_le. rewrite shr_e. apply Z.div_pos; auto. apply Z.mul_nonneg_nonneg; apply le_IZR; tauto.
        * eapply Rle_trans; [apply shr_le|]. rewrite mult_IZR. apply Rmult_le_compat_r; [lra|]. apply Rmult_le_compat; lra.
      + eapply Rle_trans; [|apply le_csh]. rewrite mult_IZR. apply Rmult_le_compat_r; [lra|].
        assert (0 <= IZR M * exp (x / 2 ^ S j)) by (apply Rmult_le_pos; lra). apply Rmult_le_compat; lra.
  Qed.
  Lemma exp_minus_ok n d lo hi : (0 <= n)%Z -> (0 < d)%Z -> exp_minus B M fuel0 n d = (lo, hi) ->
    0 <= IZR lo <= IZR M * exp (- (IZR n / IZR d)) /\ IZR M * exp (- (IZR n / IZR d)) <= IZR hi.
  Proof.
    intros Hn Hd. unfold exp_minus. set (jz := (Z.sqrt B + _)%Z). set (u := (_ / _)%Z). set (j := Z.to_nat jz).
    assert (Ej : Z.of_nat j = jz).
    { apply Z2Nat.id. unfold jz. pose proof (Z.sqrt_nonneg B). pose proof (Z.log2_nonneg (n / d + 1)). lia. }
    destruct (exp_terms B fuel0 u (u + 1) 0 M M 0 0 false) as [l h] eqn:E. intros E'.
    assert (HdR : 0 < IZR d) by (apply IZR_lt; auto). assert (HnR : 0 <= IZR n) by (apply IZR_le; auto).
    assert (HP : 0 < 2 ^ j) by (apply pow_lt; lra).
    assert (EJ : IZR (2 ^ Z.of_nat j) = 2 ^ j) by (rewrite <- pow_IZR; reflexivity).
    assert (HJ : (0 < 2 ^ Z.of_nat j)%Z) by (apply Z.pow_pos_nonneg; lia).
    assert (Eu : u = (n * M / (d * 2 ^ Z.of_nat j))%Z) by (unfold u; rewrite <- Ej, !Z.shiftl_mul_pow2, EM by lia; reflexivity).
    assert (HD : (0 < d * 2 ^ Z.of_nat j)%Z) by (apply Z.mul_pos_pos; auto). set (v := IZR n / IZR d / 2 ^ j).
    assert (Hv : 0 <= v) by (unfold v, Rdiv; repeat apply Rmult_le_pos; try lra; left; apply Rinv_0_lt_compat; lra).
    assert (EV : IZR M * v = IZR (n * M) / IZR (d * 2 ^ Z.of_nat j)) by (rewrite !mult_IZR, EJ; unfold v; field; lra).
    assert (U1 : 0 <= IZR u <= IZR M * v).
    { rewrite EV, Eu. split; [apply IZR_le, Z.div_pos; nia | apply fdiv_le; auto]. }
    assert (U2 : IZR M * v <= IZR (u + 1)).
    { rewrite EV, Eu. pose proof (Z.mul_succ_div_gt (n * M) _ HD) as Q. apply IZR_lt in Q. rewrite (mult_IZR (d * 2 ^ Z.of_nat j)), succ_IZR in Q.
      apply IZR_lt in HD. apply Rmult_le_reg_r with (IZR (d * 2 ^ Z.of_nat j)); auto. unfold Rdiv. rewrite Rmult_assoc, Rinv_l, plus_IZR by lra. lra. }
    assert (T : IZR l <= IZR M * exp (- v) <= IZR h).
    { apply (exp_terms_ok v u (u + 1)%Z Hv U1 U2) with (fuel := fuel0) (n := O) (tl := M) (th := M) (sl := 0%Z) (sh := 0%Z) (minus := false); auto; simpl; lra. }
    pose proof (exp_pos (- v)). replace (- v) with (- (IZR n / IZR d) / 2 ^ j) in T by (unfold v; field; lra).
    apply (squares_ok j (Z.max 0 l) h lo hi); auto; [|lra].
    rewrite max0. split; [apply Rmax_l | apply Rmax_lub; [|lra]]. apply Rmult_le_pos; [lra | left; apply exp_pos].
  Qed.
  Lemma exp_both_ok n d lo hi : (0 < d)%Z -> exp_both B M fuel0 n d = Some (lo, hi) ->
    0 <= IZR lo <= IZR M * exp (IZR n / IZR d) /\ IZR M * exp (IZR n / IZR d) <= IZR hi.
  Proof.
    intros Hd. unfold exp_both. assert (HdR : 0 < IZR d) by (apply IZR_lt; auto). destruct (Z.leb_spec n 0) as [H|H].
    - intros E. assert (E' : exp_minus B M fuel0 (- n) d = (lo, hi)) by congruence.
      pose proof (exp_minus_ok (- n) d lo hi ltac:(lia) Hd E') as R. rewrite opp_IZR in R.
      replace (- (- IZR n / IZR d)) with (IZR n / IZR d) in R by (field; lra). auto.
    - destruct (exp_minus B M fuel0 n d) as [l h] eqn:E. destruct (Z.ltb_spec 0 l) as [Hl|]; [|discriminate].
      intros E'. apply some_pair in E' as [<- <-]. destruct (exp_minus_ok n d l h ltac:(lia) Hd E) as [[_ L] U].
      rewrite exp_Ropp in L, U. set (x := exp (IZR n / IZR d)) in *. assert (Hx : 0 < x) by apply exp_pos.
      assert (HlR : 0 < IZR l) by (apply IZR_lt; auto). assert (Hxi : 0 < / x) by (apply Rinv_0_lt_compat; auto).
      assert (HhR : 0 < IZR h) by (pose proof (Rmult_lt_0_compat _ _ MR Hxi); lra).
      assert (Hh : (0 < h)%Z) by (apply lt_IZR; auto).
      assert (X1 : IZR M <= IZR h * x). { apply Rmult_le_reg_r with (/ x); auto. rewrite Rmult_assoc, Rinv_r; lra. }
      assert (X2 : IZR l * x <= IZR M). { apply Rmult_le_reg_r with (/ x); auto. rewrite Rmult_assoc, Rinv_r; lra. }
      repeat split.
      + apply IZR_le. apply Z.div_pos; auto. nia.
      + eapply Rle_trans; [apply fdiv_le; auto|]. rewrite mult_IZR. apply Rmult_le_reg_r with (IZR h); auto.
        unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. pose proof (Rmult_le_compat_l (IZR M) _ _ ltac:(lra) X1). lra.
      + eapply Rle_trans; [|apply le_cdivR; auto]. rewrite mult_IZR. apply Rmult_le_reg_r with (IZR l); auto.
        unfold Rdiv. rewrite (Rmult_assoc _ (/ IZR l)), Rinv_l by lra. pose proof (Rmult_le_compat_l (IZR M) _ _ ltac:(lra) X2). lra.
  Qed.

  Lemma series_ok x ul uh : 0 <= x -> 0 <= IZR ul <= IZR M * (x * x / 2) -> IZR M * (x * x / 2) <= IZR uh ->
    forall fuel n tl th sl sh minus lo hi,
    0 <= IZR tl <= IZR M * (x * eterm (x * x / 2) n) -> IZR M * (x * eterm (x * x / 2) n) <= IZR th ->
    IZR sl <= IZR M * gsum x n <= IZR sh -> (-1) ^ n = (if minus : bool then -1 else 1) ->
    series B fuel ul uh (Z.of_nat n) tl th sl sh minus = (lo, hi) -> IZR lo <= IZR M * G x <= IZR hi.
  Proof.
    intros Hx Hul Huh. induction fuel; intros n tl th sl sh minus lo hi Htl Hth Hs Hsign E.
    all: assert (Hj : (0 < 2 * Z.of_nat n + 1)%Z) by lia.
    all: assert (EJ : IZR (2 * Z.of_nat n + 1) = INR (2 * n + 1)) by (rewrite INR_IZR_INZ; f_equal; lia).
    all: assert (HJ : 0 < INR (2 * n + 1)) by (apply lt_0_INR; lia).
    all: assert (HT : 0 <= x * eterm (x * x / 2) n) by (apply Rmult_le_pos; auto; apply eterm_pos; nra).
    all: pose proof (le_cdivR th (2 * Z.of_nat n + 1) Hj) as Hb; rewrite EJ in Hb.
    all: assert (Hlast : IZR M * gterm x n <= IZR (cdiv th (2 * Z.of_nat n + 1))).
    1,3: eapply Rle_trans; [|apply Hb]; unfold gterm; replace (IZR M * (x * eterm (x * x / 2) n / INR (2 * n + 1))) with ((IZR M * (x * eterm (x * x / 2) n)) / INR (2 * n + 1)) by (field; lra);
         apply Rmult_le_compat_r; auto; left; apply Rinv_0_lt_compat; auto.
    all: assert (Hend : IZR (sl - cdiv th (2 * Z.of_nat n + 1)) <= IZR M * G x <= IZR (sh + cdiv th (2 * Z.of_nat n + 1))).
    1,3: rewrite minus_IZR, plus_IZR; pose proof (G_series n x Hx) as [S1 S2];
         assert (IZR M * - gterm x n <= IZR M * (G x - gsum x n) <= IZR M * gterm x n) by (split; apply Rmult_le_compat_l; lra); lra.
    - simpl in E. injection E as <- <-. auto.
    - cbn [series] in E. destruct (Z.leb_spec th 1). injection E as <- <-; auto.
      pose proof (fdiv_le tl (2 * Z.of_nat n + 1) Hj) as Ha. rewrite EJ in Ha.
      assert (Ha' : IZR (tl / (2 * Z.of_nat n + 1)) <= IZR M * gterm x n).
      { eapply Rle_trans; [apply Ha|]. unfold gterm. replace (IZR M * (x * eterm (x * x / 2) n / INR (2 * n + 1))) with ((IZR M * (x * eterm (x * x / 2) n)) / INR (2 * n + 1)) by (field; lra).
        apply Rmult_le_compat_r; [left; apply Rinv_0_lt_compat; auto | lra]. }
      assert (Hu : 0 <= x * x / 2) by nra.
      destruct (next_ok (x * x / 2) (x * eterm (x * x / 2) n) n ul uh tl th Hu HT Hul Huh Htl Hth) as [N1 N2].
      assert (Enext : x * eterm (x * x / 2) (S n) = x * eterm (x * x / 2) n * (x * x / 2) / INR (S n)).
      { rewrite eterm_S. field. apply Rgt_not_eq, lt_0_INR. lia. }
      assert (Hgs : gsum x (S n) = gsum x n + (-1) ^ n * gterm x n) by reflexivity.
      set (a := (tl / (2 * Z.of_nat n + 1))%Z) in *. set (b := cdiv th (2 * Z.of_nat n + 1)) in *.
      replace (Z.of_nat n + 1)%Z with (Z.of_nat (S n)) in * by lia.
      destruct (if minus then ((sl - b)%Z, (sh - a)%Z) else ((sl + a)%Z, (sh + b)%Z)) as [sl' sh'] eqn:ES.
      apply (IHfuel (S n) _ _ _ _ _ _ _) with (5 := E).
      + rewrite Enext. exact N1.
      + rewrite Enext. exact N2.
      + rewrite Hgs, Hsign. destruct minus; injection ES as <- <-; rewrite ?minus_IZR, ?plus_IZR; lra.
      + simpl. rewrite Hsign. destruct minus; simpl; lra.
  Qed.

  Lemma g_at_ok X lo hi : (0 <= X)%Z -> g_at B M fuel0 X = (lo, hi) -> IZR lo <= IZR M * G (IZR X / IZR M) <= IZR hi.
  Proof.
    intros HX E. apply IZR_le in HX. assert (H2 : (0 < 2 * M)%Z) by lia.
    assert (Eu : IZR (X * X) / IZR (2 * M) = IZR M * (IZR X / IZR M * (IZR X / IZR M) / 2)).
    { rewrite !mult_IZR. field. lra. }
    assert (Hx : 0 <= IZR X / IZR M) by (apply Rmult_le_pos; [lra | left; apply Rinv_0_lt_compat; lra]).
    apply (series_ok (IZR X / IZR M) (X * X / (2 * M)) (cdiv (X * X) (2 * M)) Hx) with (fuel := fuel0) (n := O) (tl := X) (th := X) (sl := 0%Z) (sh := 0%Z) (minus := false); auto.
    - rewrite <- Eu. split; [|apply fdiv_le; auto]. apply IZR_le. apply Z.div_pos; auto. nia.
    - rewrite <- Eu. apply le_cdivR; auto.
    - simpl. replace (IZR M * (IZR X / IZR M * 1)) with (IZR X) by (field; lra). lra.
    - simpl. replace (IZR M * (IZR X / IZR M * 1)) with (IZR X) by (field; lra). lra.
    - simpl. lra.
  Qed.

  Lemma half_z_ok m lo hi : (0 < m)%Z -> half_z B M fuel0 m = (lo, hi) ->
    IZR lo <= IZR M * G (IZR m) /\ IZR M * half_Z <= IZR hi.
  Proof.
    intros Hm. unfold half_z. destruct (g_at B M fuel0 (m * M)) as [l h] eqn:E. intros E'. injection E' as <- <-.
    assert (HmR : 0 < IZR m) by (apply IZR_lt; auto). destruct (g_at_ok (m * M) l h ltac:(nia) E) as [A BB].
    replace (IZR (m * M) / IZR M) with (IZR m) in * by (rewrite mult_IZR; field; lra). split; auto. rewrite plus_IZR.
    pose proof (half_Z_below (IZR m) HmR) as C. destruct (exp_minus B M fuel0 (m * m) 2) as [el eh] eqn:Ee. cbn [snd].
    destruct (exp_minus_ok (m * m) 2 el eh ltac:(nia) ltac:(lia) Ee) as [_ D]. rewrite mult_IZR in D.
    change (exp (- (IZR m * IZR m / 2))) with (gauss (IZR m)) in D. pose proof (le_cdivR (eh) m Hm) as F.
    assert (IZR M * gauss (IZR m) / IZR m <= IZR (eh) / IZR m) by (apply Rmult_le_compat_r; auto; left; apply Rinv_0_lt_compat; auto).
    assert (IZR M * half_Z <= IZR M * (G (IZR m) + gauss (IZR m) / IZR m)) by (apply Rmult_le_compat_l; lra).
    replace (IZR M * gauss (IZR m) / IZR m) with (IZR M * (gauss (IZR m) / IZR m)) in * by (field; lra). lra.
  Qed.

  Variables (m zlo zhi : Z).
  Hypotheses (Hm : (0 < m)%Z) (Hz : (0 < zlo)%Z) (Hzlo : IZR zlo <= IZR M * G (IZR m)) (Hzhi : IZR M * half_Z <= IZR zhi).

  Lemma cdf_pos_ok n d lo hi : (0 <= n)%Z -> (0 < d)%Z -> cdf_pos B M fuel0 m zlo zhi n d = (lo, hi) ->
    IZR lo <= IZR M * Phi (IZR n / IZR d) <= IZR hi.
  Proof.
    intros Hn Hd. unfold cdf_pos. set (X := (n * M / d)%Z). set (x := IZR n / IZR d).
    assert (HdR : 0 < IZR d) by (apply IZR_lt; auto). assert (HnR : 0 <= IZR n) by (apply IZR_le; auto).
    assert (HX : (0 <= X)%Z) by (apply Z.div_pos; nia).
    assert (Hx : 0 <= x) by (apply Rmult_le_pos; [lra | left; apply Rinv_0_lt_compat; lra]).
    assert (X1 : IZR X / IZR M <= x).
    { apply Rmult_le_reg_r with (IZR M); auto. unfold Rdiv at 1. rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra.
      unfold X. eapply Rle_trans; [apply fdiv_le; auto|]. rewrite mult_IZR. unfold x. right. field. lra. }
    assert (X2 : x <= IZR X / IZR M + 1 / IZR M).
    { apply Rmult_le_reg_r with (IZR M); auto.
      replace ((IZR X / IZR M + 1 / IZR M) * IZR M) with (IZR (X + 1)) by (rewrite plus_IZR; field; lra).
      pose proof (Z.mul_succ_div_gt (n * M) d Hd) as Q. fold X in Q. apply IZR_lt in Q. rewrite !mult_IZR, succ_IZR in Q.
      apply Rmult_le_reg_r with (IZR d); auto. unfold x. replace (IZR n / IZR d * IZR M * IZR d) with (IZR n * IZR M) by (field; lra).
      rewrite plus_IZR. lra. }
    destruct (if (m * M <=? X)%Z then (zlo, zhi) else let '(lo, hi) := g_at B M fuel0 X in (lo, (hi + 1)%Z)) as [l h] eqn:E.
    intros E'. apply pair_eq in E' as [<- <-].
    pose proof half_Z_pos as HZ. pose proof (half_Z_above x) as Hab. pose proof (half_Z_above (IZR m)) as Ham. pose proof (G_nonneg x Hx) as HG.
    assert (BB : IZR l <= IZR M * G x <= IZR h).
    { destruct (Z.leb_spec (m * M) X) as [H|H].
      - injection E as <- <-. split.
        + eapply Rle_trans; [apply Hzlo|]. apply Rmult_le_compat_l; [lra|]. apply G_incr.
          eapply Rle_trans; [|apply X1]. apply Rmult_le_reg_r with (IZR M); auto.
          replace (IZR X / IZR M * IZR M) with (IZR X) by (field; lra). rewrite <- mult_IZR. apply IZR_le; auto.
        + eapply Rle_trans; [|apply Hzhi]. apply Rmult_le_compat_l; lra.
      - destruct (g_at B M fuel0 X) as [l' h'] eqn:E2. injection E as <- <-.
        destruct (g_at_ok X l' h' HX E2) as [A1 A2]. split.
        + eapply Rle_trans; [apply A1|]. apply Rmult_le_compat_l; [lra|]. apply G_incr; auto.
        + pose proof (G_le _ _ X1) as GL. rewrite plus_IZR.
          assert (IZR M * (G x - G (IZR X / IZR M)) <= IZR M * (1 / IZR M)) by (apply Rmult_le_compat_l; lra).
          replace (IZR M * (1 / IZR M)) with 1 in * by (field; lra). lra. }
    assert (Hzl : 0 < IZR zlo) by (apply IZR_lt; auto).
    assert (HzM : IZR zlo <= IZR M * half_Z). { eapply Rle_trans; [apply Hzlo|]. apply Rmult_le_compat_l; lra. }
    assert (Hzh : 0 < IZR zhi) by lra. assert (HzhZ : (0 < zhi)%Z) by (apply lt_IZR; auto).
    assert (EP : IZR M * Phi x = IZR M * (half_Z + G x) / (2 * half_Z)) by (unfold Phi; field; lra).
    assert (HMG : 0 <= IZR M * G x) by (apply Rmult_le_pos; lra). split.
    - eapply Rle_trans; [apply fdiv_le; lia|]. rewrite EP, !mult_IZR, plus_IZR, max0.
      set (l' := Rmax 0 (IZR l)). assert (L : 0 <= l' <= IZR M * G x) by (unfold l'; split; [apply Rmax_l | apply Rmax_lub; lra]).
      apply quot_le; [apply Rmult_le_pos; lra | lra | lra |]. assert (l' * half_Z <= IZR zhi * G x).
      { apply Rle_trans with (IZR M * G x * half_Z). apply Rmult_le_compat_r; lra.
        replace (IZR M * G x * half_Z) with (IZR M * half_Z * G x) by ring. apply Rmult_le_compat_r; lra. }
      replace ((IZR zhi + l') * IZR M * (2 * half_Z)) with (2 * IZR M * (IZR zhi * half_Z + l' * half_Z)) by ring.
      replace (IZR M * (half_Z + G x) * (2 * IZR zhi)) with (2 * IZR M * (IZR zhi * half_Z + IZR zhi * G x)) by ring.
      apply Rmult_le_compat_l; lra.
    - eapply Rle_trans; [|apply le_cdivR; lia]. rewrite EP, !mult_IZR, plus_IZR.
      apply quot_le; [apply Rmult_le_pos; lra | lra | lra |]. assert (IZR zlo * G x <= IZR h * half_Z).
      { apply Rle_trans with (IZR M * G x * half_Z). 
        replace (IZR M * G x * half_Z) with (IZR M * half_Z * G x) by ring. apply Rmult_le_compat_r; lra.
        apply Rmult_le_compat_r; lra. }
      replace ((IZR zlo + IZR h) * IZR M * (2 * half_Z)) with (2 * IZR M * (IZR zlo * half_Z + IZR h * half_Z)) by ring.
      replace (IZR M * (half_Z + G x) * (2 * IZR zlo)) with (2 * IZR M * (IZR zlo * half_Z + IZR zlo * G x)) by ring.
      apply Rmult_le_compat_l; lra.
  Qed.

  Theorem cdf_ok n d lo hi : (0 < d)%Z -> cdf B M fuel0 m zlo zhi n d = (lo, hi) -> IZR lo <= IZR M * Phi (IZR n / IZR d) <= IZR hi.
  Proof.
    intros Hd. unfold cdf. destruct (Z.ltb_spec n 0) as [H|H]; [|apply cdf_pos_ok; auto].
    destruct (cdf_pos B M fuel0 m zlo zhi (- n) d) as [l h] eqn:E. intros E'. apply pair_eq in E' as [<- <-].
    destruct (cdf_pos_ok (- n) d l h ltac:(lia) Hd E) as [A BB]. assert (HdR : 0 < IZR d) by (apply IZR_lt; auto).
    replace (IZR (- n) / IZR d) with (- (IZR n / IZR d)) in * by (rewrite opp_IZR; field; lra).
    rewrite Phi_opp in *. rewrite !minus_IZR. lra.
  Qed.

  Variables (hint : Z -> Z -> Z) (qn qd sn sd : Z).
  Hypotheses (Hqd : (0 < qd)%Z) (Hqn : (0 <= qn <= qd)%Z) (Hsn : (0 < sn)%Z) (Hsd : (0 < sd)%Z).
  Let s := IZR sn / IZR sd.
  Let q := IZR qn / IZR qd.

  Lemma between_ok H al be all ah bl bh lo hi : 0 <= H ->
    (forall L, 0 <= al -> 0 <= be -> al * Phi (/ (2 * s) - s * L) - be * Phi (- / (2 * s) - s * L) <= H) ->
    (forall L, 0 <= al -> al * exp L <= be -> H <= al * (Phi (/ (2 * s) - s * L) - exp L * Phi (- / (2 * s) - s * L))) ->
    0 <= IZR all <= IZR M * al -> IZR M * al <= IZR ah -> IZR bl <= IZR M * be <= IZR bh ->
    between B M fuel0 m zlo zhi hint sn sd all ah bl bh = Some (lo, hi) -> IZR lo <= IZR M * H <= IZR hi.
  Proof.
    intros HH Hlow Hup Hal Hah Hbe. unfold between. set (l := hint ah bl).
    destruct (exp_both B M fuel0 l M) as [[el eh]|] eqn:Eeh; [|discriminate].
    destruct (Z.leb_spec (eh * ah) (bl * M)) as [Hle|]; [|discriminate].
    destruct (cdf B M fuel0 m zlo zhi (sd * sd * M - 2 * sn * sn * l) (2 * sn * sd * M)) as [Al Ah] eqn:EA.
    destruct (cdf B M fuel0 m zlo zhi (- (sd * sd * M) - 2 * sn * sn * l) (2 * sn * sd * M)) as [Bl Bh] eqn:EB.
    intros E. apply some_pair in E as [<- <-].
    assert (HsnR : 0 < IZR sn) by (apply IZR_lt; auto). assert (HsdR : 0 < IZR sd) by (apply IZR_lt; auto).
    assert (Hden : (0 < 2 * sn * sd * M)%Z) by (repeat apply Z.mul_pos_pos; lia).
    pose proof (cdf_ok _ _ _ _ Hden EA) as PA. pose proof (cdf_ok _ _ _ _ Hden EB) as PB. set (L := IZR l / IZR M).
    replace (IZR (sd * sd * M - 2 * sn * sn * l) / IZR (2 * sn * sd * M)) with (/ (2 * s) - s * L) in PA
      by (unfold s, L; rewrite minus_IZR, !mult_IZR; field; lra).
    replace (IZR (- (sd * sd * M) - 2 * sn * sn * l) / IZR (2 * sn * sd * M)) with (- / (2 * s) - s * L) in PB
      by (unfold s, L; rewrite minus_IZR, opp_IZR, !mult_IZR; field; lra).
    destruct (exp_both_ok l M el eh HM Eeh) as [Hl He]. fold L in He, Hl. pose proof (exp_pos L) as PL.
    assert (Hal0 : 0 <= al). { apply Rmult_le_reg_l with (IZR M); auto. lra. }
    set (p1 := Phi (/ (2 * s) - s * L)) in *. set (p2 := Phi (- / (2 * s) - s * L)) in *.
    assert (P1 : 0 <= p1) by apply Phi_nonneg. assert (P2 : 0 <= p2) by apply Phi_nonneg.
    assert (Hge : al * exp L <= be).
    { apply Rmult_le_reg_l with (IZR M * IZR M). apply Rmult_lt_0_compat; auto.
      apply IZR_le in Hle. rewrite !mult_IZR in Hle. assert ((IZR M * exp L) * (IZR M * al) <= IZR eh * IZR ah).
      { apply Rmult_le_compat; try apply Rmult_le_pos; lra. }
      assert (IZR bl * IZR M <= IZR M * be * IZR M) by (apply Rmult_le_compat_r; lra). lra. }
    assert (Hbe0 : 0 <= be). { eapply Rle_trans; [|apply Hge]. apply Rmult_le_pos; lra. }
    specialize (Hlow L Hal0 Hbe0). specialize (Hup L Hal0 Hge). fold p1 p2 in Hlow, Hup.
    assert (HMp1 : 0 <= IZR M * p1) by (apply Rmult_le_pos; lra). assert (HMp2 : 0 <= IZR M * p2) by (apply Rmult_le_pos; lra).
    split.
    - rewrite max0. apply Rmax_lub; [apply Rmult_le_pos; lra|].
      eapply Rle_trans; [apply fdiv_le; auto|]. rewrite minus_IZR, !mult_IZR, max0.
      assert (IZR all * Rmax 0 (IZR Al) <= (IZR M * al) * (IZR M * p1)).
      { apply Rmult_le_compat; try lra. apply Rmax_l. apply Rmax_lub; lra. }
      assert ((IZR M * be) * (IZR M * p2) <= IZR bh * IZR Bh).
      { apply Rmult_le_compat; try lra. apply Rmult_le_pos; lra. }
      assert (IZR M * (al * p1 - be * p2) <= IZR M * H) by (apply Rmult_le_compat_l; lra).
      apply Rmult_le_reg_r with (IZR M); auto. unfold Rdiv. rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra.
      assert (IZR M * (al * p1 - be * p2) * IZR M <= IZR M * H * IZR M) by (apply Rmult_le_compat_r; lra). lra.
    - eapply Rle_trans; [|apply le_cdivR; nia]. rewrite !mult_IZR, max0, minus_IZR, !mult_IZR, max0.
      set (W := Rmax 0 (IZR Ah * IZR M - IZR el * Rmax 0 (IZR Bl))). assert (W1 : 0 <= W) by apply Rmax_l.
      assert (W2 : IZR M * IZR M * (p1 - exp L * p2) <= W).
      { eapply Rle_trans; [|apply Rmax_r].
        assert (IZR el * Rmax 0 (IZR Bl) <= (IZR M * exp L) * (IZR M * p2)).
        { apply Rmult_le_compat; try lra. apply Rmax_l. apply Rmax_lub; lra. }
        assert (IZR M * p1 * IZR M <= IZR Ah * IZR M) by (apply Rmult_le_compat_r; lra). lra. }
      assert (W3 : (IZR M * al) * (IZR M * IZR M * (p1 - exp L * p2)) <= IZR ah * W).
      { apply Rle_trans with ((IZR M * al) * W). apply Rmult_le_compat_l; auto. apply Rmult_le_pos; lra. apply Rmult_le_compat_r; lra. }
      apply Rmult_le_reg_r with (IZR M * IZR M). apply Rmult_lt_0_compat; auto.
      unfold Rdiv. rewrite (Rmult_assoc (IZR ah * W)), Rinv_l, Rmult_1_r by (apply Rgt_not_eq, Rmult_lt_0_compat; auto).
      assert (IZR M * IZR M * IZR M * H <= IZR M * IZR M * IZR M * (al * (p1 - exp L * p2))).
      { apply Rmult_le_compat_l; auto. repeat apply Rmult_le_pos; lra. } lra.
  Qed.

  Lemma q_bounds : 0 <= q <= 1 /\ IZR (qn * M / qd) <= IZR M * q <= IZR (cdiv (qn * M) qd).
  Proof.
    assert (HqdR : 0 < IZR qd) by (apply IZR_lt; auto). destruct Hqn as [A BB]. apply IZR_le in A, BB. unfold q. repeat split.
    - apply Rmult_le_pos; [lra | left; apply Rinv_0_lt_compat; lra].
    - apply Rmult_le_reg_r with (IZR qd); auto. unfold Rdiv. rewrite Rmult_assoc, Rinv_l; lra.
    - eapply Rle_trans; [apply fdiv_le; auto|]. rewrite mult_IZR. right. field. lra.
    - eapply Rle_trans; [|apply le_cdivR; auto]. rewrite mult_IZR. right. field. lra.
  Qed.

  Theorem remove_at_ok H n d lo hi : 0 <= H -> (0 < d)%Z -> let r := exp (IZR n / IZR d) in
    (r - 1 + q <= 0 -> H = 1 - r) ->
    (forall L, 0 <= q -> 0 <= r - 1 + q -> q * Phi (/ (2 * s) - s * L) - (r - 1 + q) * Phi (- / (2 * s) - s * L) <= H) ->
    (forall L, 0 <= q -> q * exp L <= r - 1 + q -> H <= q * (Phi (/ (2 * s) - s * L) - exp L * Phi (- / (2 * s) - s * L))) ->
    remove_at B M fuel0 m zlo zhi hint qn qd sn sd n d = Some (lo, hi) -> IZR lo <= IZR M * H <= IZR hi.
  Proof.
    intros HH Hd r Hflat Hlow Hup. unfold remove_at.
    destruct (exp_both B M fuel0 n d) as [[rl rh]|] eqn:Eh; [|discriminate].
    destruct (exp_both_ok n d rl rh Hd Eh) as [Rl Rh]. fold r in Rh, Rl. destruct q_bounds as [Q01 QM].
    set (al := (qn * M / qd)%Z) in *. set (ah := cdiv (qn * M) qd) in *.
    destruct (Z.leb_spec (rh - M + ah) 0) as [Z1|Z1].
    - intros E. apply some_pair in E as [<- <-]. apply IZR_le in Z1. rewrite plus_IZR, minus_IZR in Z1.
      rewrite Hflat. rewrite !minus_IZR; lra. apply Rmult_le_reg_l with (IZR M); auto. lra.
    - destruct (Z.leb_spec 0 al) as [Z2|]; [|discriminate]. destruct (Z.ltb_spec 0 (rl - M + al)) as [Z3|]; [|discriminate].
      intros E. apply IZR_le in Z2. apply (between_ok H q (r - 1 + q) _ _ _ _ _ _ HH Hlow Hup) with (4 := E); try lra.
      rewrite !plus_IZR, !minus_IZR. lra.
  Qed.

  Theorem add_at_ok H n d lo hi : 0 <= H -> (0 < d)%Z -> let r := exp (IZR n / IZR d) in
    (1 - (1 - q) * r <= 0 -> H = 0) ->
    (forall L, 0 <= 1 - (1 - q) * r -> 0 <= q * r -> (1 - (1 - q) * r) * Phi (/ (2 * s) - s * L) - (q * r) * Phi (- / (2 * s) - s * L) <= H) ->
    (forall L, 0 <= 1 - (1 - q) * r -> (1 - (1 - q) * r) * exp L <= q * r -> H <= (1 - (1 - q) * r) * (Phi (/ (2 * s) - s * L) - exp L * Phi (- / (2 * s) - s * L))) ->
    add_at B M fuel0 m zlo zhi hint qn qd sn sd n d = Some (lo, hi) -> IZR lo <= IZR M * H <= IZR hi.
  Proof.
    intros HH Hd r Hzero Hlow Hup. unfold add_at.
    destruct (exp_both B M fuel0 n d) as [[rl rh]|] eqn:Eh; [|discriminate].
    destruct (exp_both_ok n d rl rh Hd Eh) as [Rl Rh]. fold r in Rh, Rl. destruct q_bounds as [Q01 QM].
    assert (HqdR : 0 < IZR qd) by (apply IZR_lt; auto).
    assert (Eq : IZR (qd - qn) = IZR qd * (1 - q)) by (rewrite minus_IZR; unfold q; field; lra).
    assert (Eq' : IZR qn = IZR qd * q) by (unfold q; field; lra).
    assert (C1 : IZR M * ((1 - q) * r) <= IZR (cdiv ((qd - qn) * rh) qd)).
    { eapply Rle_trans; [|apply le_cdivR; auto]. rewrite mult_IZR, Eq. replace (IZR qd * (1 - q) * IZR rh / IZR qd) with ((1 - q) * IZR rh) by (field; lra).
      replace (IZR M * ((1 - q) * r)) with ((1 - q) * (IZR M * r)) by ring. apply Rmult_le_compat_l; lra. }
    assert (C2 : IZR ((qd - qn) * rl / qd) <= IZR M * ((1 - q) * r)).
    { eapply Rle_trans; [apply fdiv_le; auto|]. rewrite mult_IZR, Eq. replace (IZR qd * (1 - q) * IZR rl / IZR qd) with ((1 - q) * IZR rl) by (field; lra).
      replace (IZR M * ((1 - q) * r)) with ((1 - q) * (IZR M * r)) by ring. apply Rmult_le_compat_l; lra. }
    assert (C3 : IZR M * (q * r) <= IZR (cdiv (qn * rh) qd)).
    { eapply Rle_trans; [|apply le_cdivR; auto]. rewrite mult_IZR, Eq'. replace (IZR qd * q * IZR rh / IZR qd) with (q * IZR rh) by (field; lra).
      replace (IZR M * (q * r)) with (q * (IZR M * r)) by ring. apply Rmult_le_compat_l; lra. }
    assert (C4 : IZR (qn * rl / qd) <= IZR M * (q * r)).
    { eapply Rle_trans; [apply fdiv_le; auto|]. rewrite mult_IZR, Eq'. replace (IZR qd * q * IZR rl / IZR qd) with (q * IZR rl) by (field; lra).
      replace (IZR M * (q * r)) with (q * (IZR M * r)) by ring. apply Rmult_le_compat_l; lra. }
    destruct (Z.leb_spec (M - (qd - qn) * rl / qd) 0) as [Z1|Z1].
    - intros E. apply some_pair in E as [<- <-]. apply IZR_le in Z1. rewrite minus_IZR in Z1.
      rewrite Hzero; [lra|]. apply Rmult_le_reg_l with (IZR M); auto. lra.
    - destruct (Z.leb_spec 0 (M - cdiv ((qd - qn) * rh) qd)) as [Z2|]; [|discriminate].
      intros E. apply IZR_le in Z2. rewrite minus_IZR in Z2. apply (between_ok H (1 - (1 - q) * r) (q * r) _ _ _ _ _ _ HH Hlow Hup) with (4 := E); rewrite ?minus_IZR; lra.
  Qed.
End sound.
