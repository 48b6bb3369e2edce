(* S5: the last sum. *)
Require Import Reals ZArith List Lra Lia Evr.Order Evr.Integers Evr.Masses.
Import ListNotations.
Open Scope R_scope.

Section last.
  Variables (H c : R) (g W E E' : Z).
  Hypothesis HH : 0 < H.
  Hypothesis Hg : (0 < g)%Z.
  Hypothesis HW : (0 < W)%Z.
  Hypothesis c1 : 1 <= c.
  Hypothesis c2 : c * exp (- H) <= 1.
  Hypothesis E_ok : (0 <= E)%Z /\ IZR E <= IZR W * exp (- H).
  Hypothesis E'_ok : (0 <= E')%Z /\ IZR E' <= IZR W * c.

  (* the weight n places beyond the cut *)
  Definition wt (n : Z) : R := Rmax 0 (1 - c * exp (- (IZR n * H))).
  Fixpoint wsum (n : Z) (l : list Z) : R :=
    match l with [] => 0 | z :: l' => IZR z * wt n + wsum (n + 1) l' end.
  (* sum of l_j h^(j+1) *)
  Fixpoint rs (l : list Z) : R :=
    match l with [] => 0 | z :: l' => exp (- H) * (IZR z + rs l') end.
  Definition nn (l : list Z) := Forall (fun z => (0 <= z)%Z) l.

  Lemma wt_low n : (n <= 0)%Z -> wt n = 0.
  Proof.
    intros Hn. unfold wt. apply Rmax_left.
    assert (1 <= exp (- (IZR n * H))).
    { rewrite <- exp_0 at 1. apply IZR_le in Hn.
      assert (IZR n * H <= 0 * H) by (apply Rmult_le_compat_r; lra).
      destruct (Req_dec 0 (- (IZR n * H))) as [<-|]; [lra|]. left; apply exp_increasing; lra. }
    assert (1 * 1 <= c * exp (- (IZR n * H))) by (apply Rmult_le_compat; lra). lra.
  Qed.

  Lemma exp_h1 : 0 < exp (- H) <= 1.
  Proof. split. apply exp_pos. left. rewrite <- exp_0. apply exp_increasing. lra. Qed.

  Lemma wt_high n : (1 <= n)%Z -> wt n = 1 - c * exp (- (IZR n * H)).
  Proof.
    intros Hn. unfold wt. apply Rmax_right.
    assert (exp (- (IZR n * H)) <= exp (- H)).
    { apply IZR_le in Hn. assert (1 * H <= IZR n * H) by (apply Rmult_le_compat_r; lra).
      destruct (Req_dec (- (IZR n * H)) (- H)) as [->|]; [lra|]. left; apply exp_increasing; lra. }
    assert (c * exp (- (IZR n * H)) <= c * exp (- H)) by (apply Rmult_le_compat_l; lra). lra.
  Qed.

  Lemma wt_pos n : 0 <= wt n. Proof. apply Rmax_l. Qed.

  Lemma rs_pos l : nn l -> 0 <= rs l.
  Proof.
    induction 1; simpl; [lra|]. apply IZR_le in H0. apply Rmult_le_pos; auto. lra.
  Qed.

  Lemma wsum_high l : forall n, (1 <= n)%Z ->
    wsum n l = IZR (zsum l) - c * exp (- (IZR (n - 1) * H)) * rs l.
  Proof.
    induction l; intros n Hn; simpl wsum; simpl zsum; simpl rs; [lra|].
    rewrite IHl, wt_high, plus_IZR by lia.
    replace (exp (- (IZR n * H))) with (exp (- (IZR (n - 1) * H)) * exp (- H)).
    2:{ rewrite <- exp_plus. f_equal. rewrite minus_IZR. ring. }
    replace (exp (- (IZR (n + 1 - 1) * H))) with (exp (- (IZR (n - 1) * H)) * exp (- H)).
    2:{ rewrite <- exp_plus. f_equal. replace (n + 1 - 1)%Z with n by lia. rewrite minus_IZR. ring. }
    ring.
  Qed.

  Fixpoint D (n : Z) (xs l : list Z) : R :=
    match xs with [] => 0 | x :: xs' => IZR x * wsum n l + D (n - 1) xs' l end.

  Lemma D_nil xs : forall n, D n xs [] = 0.
  Proof. induction xs; intros; simpl; auto. rewrite IHxs. ring. Qed.

  Lemma D_low y l xs : forall n, (n <= 0)%Z -> D n xs (y :: l) = D (n + 1) xs l.
  Proof.
    induction xs; intros; simpl; auto. rewrite wt_low, IHxs by lia.
    replace (n - 1 + 1)%Z with (n + 1 - 1)%Z by lia. ring.
  Qed.

  Lemma tails_ok l : nn l -> forall ts S R, tails g W E E' l = (ts, (S, R)) ->
    S = zsum l /\ (0 <= R)%Z /\ IZR R <= IZR g * rs l /\
    forall xs, nn xs -> D 1 xs l <= IZR (dot xs ts).
  Proof.
    pose proof exp_h1 as h1. destruct E_ok as [E0 E1], E'_ok as [E0' E1'].
    assert (HWr : 0 < IZR W) by (apply (IZR_lt 0); auto).
    assert (Hgr : 0 < IZR g) by (apply (IZR_lt 0); auto).
    apply IZR_le in E0, E0'.
    induction 1 as [|y l Hy Hl IH]; intros ts S R Ht.
    - simpl in Ht. inversion Ht; subst. simpl. repeat split; try lia; try lra.
      intros. rewrite D_nil. destruct xs; simpl; lra.
    - simpl in Ht. destruct (tails g W E E' l) as [ts' [s r]] eqn:Et.
      destruct (IH _ _ _ eq_refl) as (HS & HR0 & HR & Hd).
      set (s' := (s + y)%Z) in *. set (r' := ((y * g + r) * E / W)%Z) in *.
      inversion Ht; subst ts S R; clear Ht.
      assert (Hs' : s' = zsum (y :: l)) by (unfold s'; simpl; lia).
      assert (Hrs : 0 <= rs l) by (apply rs_pos; auto).
      assert (Hr0 : (0 <= r')%Z).
      { apply Z.div_pos; auto. apply le_IZR in E0. apply Z.mul_nonneg_nonneg; auto. nia. }
      assert (Hr : IZR r' <= IZR g * rs (y :: l)).
      { assert (Hq : (r' * W <= (y * g + r) * E)%Z) by (unfold r'; rewrite Z.mul_comm; apply Z.mul_div_le; auto).
        apply IZR_le in Hq. rewrite !mult_IZR, plus_IZR, mult_IZR in Hq.
        apply Rmult_le_reg_r with (IZR W); auto.
        apply IZR_le in Hy.
        assert (0 <= IZR y * IZR g) by (apply Rmult_le_pos; lra).
        apply IZR_le in HR0.
        assert (0 <= IZR g * rs l) by (apply Rmult_le_pos; lra).
        assert ((IZR y * IZR g + IZR r) * IZR E <= (IZR y * IZR g + IZR g * rs l) * (IZR W * exp (- H))).
        { apply Rmult_le_compat; lra. }
        simpl rs. lra. }
      split; auto. split; auto. split; auto.
      intros xs Hxs. destruct xs as [|x xs]; [simpl; lra|]. inversion Hxs; subst.
      simpl D. simpl dot. rewrite D_low by lia. simpl (0 + 1)%Z.
      rewrite plus_IZR, mult_IZR. apply Rplus_le_compat; [|apply Hd; auto].
      apply Rmult_le_compat_l; [apply (IZR_le 0); auto|].
      change (IZR y * wt 1 + wsum 2 l) with (wsum 1 (y :: l)).
      rewrite wsum_high by lia. replace (exp (- (IZR (1 - 1) * H))) with 1.
      2:{ rewrite <- exp_0. f_equal. simpl. ring. }
      rewrite minus_IZR, Hs'. apply Rplus_le_compat_l, Ropp_le_contravar.
      assert (Hq : (r' * E' / (W * g) * (W * g) <= r' * E')%Z).
      { rewrite Z.mul_comm. apply Z.mul_div_le. nia. }
      apply IZR_le in Hq. rewrite !mult_IZR in Hq.
      apply IZR_le in Hr0.
      assert (IZR r' * IZR E' <= (IZR g * rs (y :: l)) * (IZR W * c)) by (apply Rmult_le_compat; lra).
      apply Rmult_le_reg_r with (IZR W * IZR g); [apply Rmult_lt_0_compat; auto|]. lra.
  Qed.

  Lemma D_app a b l : forall n, D n (a ++ b) l = D n a l + D (n - Z.of_nat (length a)) b l.
  Proof.
    induction a; intros; cbn [D app length]; [rewrite Z.sub_0_r; ring|].
    rewrite IHa. replace (n - 1 - Z.of_nat (length a0))%Z with (n - Z.of_nat (Datatypes.S (length a0)))%Z by lia. ring.
  Qed.

  Fixpoint F (w : Z -> R) (i : Z) (xs : list Z) : R :=
    match xs with [] => 0 | x :: xs' => IZR x * w i + F w (i + 1) xs' end.

  Lemma F_ext w w' xs : forall i, (forall j, (i <= j < i + Z.of_nat (length xs))%Z -> w j = w' j) -> F w i xs = F w' i xs.
  Proof.
    induction xs; intros i Hw; cbn [F length] in *; auto.
    rewrite (Hw i) by lia. rewrite IHxs; auto. intros; apply Hw; lia.
  Qed.

  Lemma D_rev l xs : forall i, F (fun j => wsum j l) i xs = D (i + Z.of_nat (length xs) - 1) (rev xs) l.
  Proof.
    induction xs; intros i; cbn [F rev length]; auto.
    rewrite D_app, IHxs, rev_length. cbn [D].
    replace (i + 1 + Z.of_nat (length xs) - 1)%Z with (i + Z.of_nat (Datatypes.S (length xs)) - 1)%Z by lia.
    replace (i + Z.of_nat (Datatypes.S (length xs)) - 1 - Z.of_nat (length xs))%Z with i by lia. ring.
  Qed.

  Lemma wsum_zeros k : (0 <= k)%Z -> forall l n, wsum n (zeros 0%Z k l) = wsum (n + k) l.
  Proof.
    intros Hk; destruct k as [|p|p]; try lia; clear Hk.
    - intros; simpl zeros; rewrite Z.add_0_r; auto.
    - induction p using Pos.peano_ind; intros.
      + simpl. ring.
      + rewrite zeros_succ. cbn [wsum]. rewrite IHp.
        replace (n + 1 + Z.pos p)%Z with (n + Z.pos (Pos.succ p))%Z by lia. ring.
  Qed.

  Lemma wsum_drop l : forall k n, (0 <= k)%Z -> (n + k <= 1)%Z -> wsum n l = wsum (n + k) (drop l k).
  Proof.
    induction l; intros k n Hk Hn; simpl; auto.
    destruct (Z.leb_spec k 0).
    - replace (n + k)%Z with n by lia. auto.
    - rewrite wt_low by lia. rewrite (IHl (k - 1)%Z) by lia.
      replace (n + 1 + (k - 1))%Z with (n + k)%Z by lia. ring.
  Qed.

  Lemma wsum_start n N m : (n + m <= 1)%Z -> wsum (first N + m) (coef N) = wsum (n + m) (start_at n N).
  Proof.
    intros Hm. unfold start_at. destruct (Z.leb_spec n (first N)).
    - rewrite wsum_zeros by lia. f_equal; lia.
    - rewrite (wsum_drop _ (n - first N)) by lia. f_equal; lia.
  Qed.

  Lemma zlen_ok l : zlen l = Z.of_nat (length l).
  Proof.
    unfold zlen. assert (forall l n, fold_left (fun n (_ : Z) => (n + 1)%Z) l n = (n + Z.of_nat (length l))%Z) as ->.
    { clear; induction l; intros; cbn [fold_left length]; [lia | rewrite IHl; lia]. }
    auto.
  Qed.

  Lemma nn_zeros k l : nn l -> nn (zeros 0%Z k l).
  Proof.
    intros Hl; destruct k; auto. induction p using Pos.peano_ind; [simpl; constructor; auto; lia|].
    rewrite zeros_succ; constructor; auto; lia.
  Qed.

  Lemma nn_drop l : nn l -> forall k, nn (drop l k).
  Proof. induction 1; intros; simpl; [constructor|]. destruct (k <=? 0)%Z; auto. constructor; auto. Qed.

  Lemma integers_ok cut M N : nn (coef M) -> nn (coef N) ->
    F (fun i => wsum (first N + (i - cut)) (coef N)) (first M) (coef M) <= IZR (last_sum g W E E' cut M N).
  Proof.
    intros HM HN. unfold last_sum. rewrite dot_e, tails_e, zlen_ok, <- rev_alt.
    set (n := (cut + 1 - (first M + Z.of_nat (length (coef M)) - 1))%Z).
    assert (Hst : nn (start_at n N)).
    { unfold start_at. destruct (n <=? first N)%Z; [apply nn_zeros | apply nn_drop]; auto. }
    destruct (tails g W E E' (start_at n N)) as [ts [s r]] eqn:Et.
    destruct (tails_ok _ Hst _ _ _ Et) as (_ & _ & _ & Hd).
    simpl fst. eapply Rle_trans; [|apply Hd; apply Forall_rev; auto].
    right. rewrite (F_ext _ (fun i => wsum (i + (n - cut)) (start_at n N))).
    2:{ intros j Hj. rewrite (wsum_start n) by lia. f_equal; lia. }
    assert (Fs : forall w k xs i, F (fun j => w (j + k)%Z) i xs = F w (i + k) xs).
    { clear. intros w k xs; induction xs; intros; cbn [F]; auto. rewrite IHxs.
      replace (i + 1 + k)%Z with (i + k + 1)%Z by lia. auto. }
    rewrite (Fs (fun j => wsum j (start_at n N))), D_rev. f_equal. unfold n. lia.
  Qed.

  Lemma last_sum_ok s o o' eps cut M N nu nu' : 0 < s ->
    c = exp (eps - (o + o') - IZR cut * H) ->
    below s H o M nu -> below s H o' N nu' ->
    comp nu nu' (phi eps) * (s * s) <= IZR (last_sum g W E E' cut M N).
  Proof.
    intros Hs Hc (l & Hl & He) (l' & Hl' & He').
    eapply Rle_trans; [|apply integers_ok; eapply le_Znonneg; eauto].
    assert (Hphi : forall i j, phi eps (pt H o i * pt H o' j) = wt (j + (i - cut))).
    { intros i j. unfold phi, wt. f_equal. f_equal. rewrite Hc. unfold pt. rewrite <- !exp_plus. f_equal.
      rewrite plus_IZR, minus_IZR. ring. }
    assert (Hin : forall i, ev (exp (- H)) (pt H o' (first N)) l' (fun y => phi eps (pt H o i * y)) * s
                    <= wsum (first N + (i - cut)) (coef N)).
    { intros i. generalize (first N). clear He'. induction Hl'; intros j; simpl; [lra|].
      rewrite Hphi, pt_next. specialize (IHHl' (j + 1)%Z).
      replace (j + 1 + (i - cut))%Z with (j + (i - cut) + 1)%Z in IHHl' by lia.
      destruct H0. pose proof (wt_pos (j + (i - cut))).
      assert (x * s * wt (j + (i - cut)) <= IZR y * wt (j + (i - cut))) by (apply Rmult_le_compat_r; auto). lra. }
    assert (Hpos : forall i, 0 <= ev (exp (- H)) (pt H o' (first N)) l' (fun y => phi eps (pt H o i * y))).
    { intros; apply ev_nonneg; auto. eapply le_nonneg; eauto. intros; apply Rmax_l. }
    unfold comp. rewrite He.
    rewrite (ev_ext _ _ _ _ (fun x => ev (exp (- H)) (pt H o' (first N)) l' (fun y => phi eps (x * y))))
      by (intros; apply He').
    clear He He'. generalize (first M). induction Hl; intros i; simpl; [lra|].
    rewrite pt_next. specialize (IHHl (i + 1)%Z). specialize (Hin i). specialize (Hpos i).
    set (v := ev _ _ l' (fun y0 => phi eps (pt H o i * y0))) in *.
    destruct H0.
    assert ((x * s) * (v * s) <= IZR y * wsum (first N + (i - cut)) (coef N)).
    { apply Rmult_le_compat; auto; apply Rmult_le_pos; lra. }
    lra.
  Qed.
End last.
