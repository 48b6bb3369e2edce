(* Integer bounds of powers of e, by (1 + x/2^k)^(2^k) and k squarings; the shares of S4.3. *)
Require Import Reals ZArith List Lra Lia Evr.Integers Evr.Masses.
Import ListNotations.
Open Scope Z_scope.

(* Q: a power of 2 as large as the precision wants; k: squarings *)
Fixpoint sq_down (k : nat) (Q a : Z) : Z := match k with O => a | S k' => sq_down k' Q (a * a / Q) end.
Fixpoint sq_up (k : nat) (Q a : Z) : Z := match k with O => a | S k' => sq_up k' Q (cdiv (a * a) Q) end.

(* at most Q e^(n/d) *)
Definition exp_down (k : nat) (Q n d : Z) : Z :=
  let D := d * 2 ^ Z.of_nat k in sq_down k Q (Z.max 0 (Q * (D + n) / D)).
(* at least Q e^(-n/d), n >= 0 *)
Definition exp_up (k : nat) (Q n d : Z) : Z :=
  let D := d * 2 ^ Z.of_nat k in sq_up k Q (cdiv (Q * D) (D + n)).

(* shares of S4.3: lo at most Q g, hi at least Q G *)
Fixpoint shares_from (S Q lo hi y : Z) (r : nat) : list Z :=
  match r with
  | O => []
  | Datatypes.S r' =>
      (if Q <=? hi then S else Z.min S (cdiv ((Q - y) * S) (Q - hi)))
      :: shares_from S Q lo hi (y * lo / Q) r'
  end.

(* for the spacing n/d of the finer grid, cells of 2^b places *)
Definition shares_by_recursion (k : nat) (Q S n d b : Z) : list Z :=
  shares_from S Q (exp_down k Q (- n) d) (exp_up k Q (n * 2 ^ b) d) Q (Z.to_nat (2 ^ b)).
(* the shares of a cell: its number of places may be long, so no nat counts it *)
Definition shares (k : nat) (Q S n d b : Z) : list Z :=
  let lo := exp_down k Q (- n) d in
  let hi := exp_up k Q (n * 2 ^ b) d in
  match 2 ^ b with
  | Zpos p =>
      back (snd (Pos.iter (fun st => let '(y, out) := st in
        (y * lo / Q, (if Q <=? hi then S else Z.min S (cdiv ((Q - y) * S) (Q - hi))) :: out)) (Q, []) p))
  | _ => []
  end.

Lemma iter_inside A (f : A -> A) x n : Nat.iter (Datatypes.S n) f x = Nat.iter n f (f x).
Proof. induction n; [reflexivity|]. simpl in *. congruence. Qed.
Lemma shares_e : shares = shares_by_recursion.
Proof.
  ext. rename x into k, x0 into Q, x1 into S, x2 into n, x3 into d, x4 into b. unfold shares, shares_by_recursion.
  set (lo := exp_down _ _ _ _). set (hi := exp_up _ _ _ _).
  destruct (2 ^ b) as [|p|p]; [reflexivity| |reflexivity]. simpl Z.to_nat. rewrite Pos2Nat.inj_iter.
  set (f := fun st : Z * list Z => _).
  enough (H : forall m y out, snd (Nat.iter m f (y, out)) = rev_append (shares_from S Q lo hi y m) out).
  { change (nat_rect _ (Q, []) (fun _ => f) (Pos.to_nat p)) with (Nat.iter (Pos.to_nat p) f (Q, [])). rewrite H. apply back_back. }
  induction m; intros; [reflexivity|]. rewrite iter_inside. unfold f at 2. rewrite IHm. reflexivity.
Qed.

Open Scope R_scope.

Lemma exp_half x : exp (x / 2) * exp (x / 2) = exp x.
Proof. rewrite <- exp_plus. f_equal. field. Qed.

Lemma div_le a b : (0 < b)%Z -> IZR (a / b) * IZR b <= IZR a.
Proof. intros Hb. rewrite <- mult_IZR. apply IZR_le. rewrite Z.mul_comm. apply Z.mul_div_le; auto. Qed.
Lemma le_cdiv a b : (0 < b)%Z -> IZR a <= IZR (cdiv a b) * IZR b.
Proof. intros Hb. rewrite <- mult_IZR. apply IZR_le. apply cdiv_spec; auto. Qed.

Lemma sq_down_ok Q k : (0 < Q)%Z -> forall a x, (0 <= a)%Z -> IZR a <= IZR Q * exp (x / 2 ^ k) ->
  (0 <= sq_down k Q a)%Z /\ IZR (sq_down k Q a) <= IZR Q * exp x.
Proof.
  intros HQ. assert (HQr : 0 < IZR Q) by (apply IZR_lt; auto).
  induction k; intros a x Ha Hx; simpl.
  - replace (x / 2 ^ 0) with x in Hx by (simpl; field). auto.
  - apply IHk. apply Z.div_pos; nia.
    apply Rmult_le_reg_r with (IZR Q); auto. eapply Rle_trans; [apply div_le; auto|].
    rewrite mult_IZR. apply IZR_le in Ha.
    replace (x / 2 ^ Datatypes.S k) with (x / 2 ^ k / 2) in Hx by (simpl; field; apply pow_nonzero; lra).
    assert (IZR a * IZR a <= (IZR Q * exp (x / 2 ^ k / 2)) * (IZR Q * exp (x / 2 ^ k / 2))) by (apply Rmult_le_compat; lra).
    rewrite <- (exp_half (x / 2 ^ k)). lra.
Qed.

Lemma sq_up_ok Q k : (0 < Q)%Z -> forall a x, IZR Q * exp (x / 2 ^ k) <= IZR a ->
  IZR Q * exp x <= IZR (sq_up k Q a).
Proof.
  intros HQ. assert (HQr : 0 < IZR Q) by (apply IZR_lt; auto).
  induction k; intros a x Hx; simpl.
  - replace (x / 2 ^ 0) with x in Hx by (simpl; field). auto.
  - apply IHk. apply Rmult_le_reg_r with (IZR Q); auto. eapply Rle_trans; [|apply le_cdiv; auto].
    rewrite mult_IZR.
    replace (x / 2 ^ Datatypes.S k) with (x / 2 ^ k / 2) in Hx by (simpl; field; apply pow_nonzero; lra).
    assert (0 <= IZR Q * exp (x / 2 ^ k / 2)) by (apply Rmult_le_pos; [lra | left; apply exp_pos]).
    assert ((IZR Q * exp (x / 2 ^ k / 2)) * (IZR Q * exp (x / 2 ^ k / 2)) <= IZR a * IZR a) by (apply Rmult_le_compat; lra).
    rewrite <- (exp_half (x / 2 ^ k)). lra.
Qed.

Lemma two_pow k : IZR (2 ^ Z.of_nat k) = 2 ^ k.
Proof. symmetry. apply (pow_IZR 2 k). Qed.

Lemma exp_ge x : 1 + x <= exp x.
Proof. destruct (Req_dec x 0) as [->|]; [rewrite exp_0; lra|]. left. apply exp_ineq1; auto. Qed.

Lemma exp_down_ok k Q n d : (0 < Q)%Z -> (0 < d)%Z ->
  (0 <= exp_down k Q n d)%Z /\ IZR (exp_down k Q n d) <= IZR Q * exp (IZR n / IZR d).
Proof.
  intros HQ Hd. assert (HQr : 0 < IZR Q) by (apply IZR_lt; auto). assert (Hdr : 0 < IZR d) by (apply IZR_lt; auto).
  unfold exp_down. set (D := (d * 2 ^ Z.of_nat k)%Z).
  assert (HD : (0 < D)%Z) by (unfold D; apply Z.mul_pos_pos; auto; apply Z.pow_pos_nonneg; lia).
  assert (HDr : IZR D = IZR d * 2 ^ k) by (unfold D; rewrite mult_IZR, two_pow; auto).
  assert (H2 : 0 < 2 ^ k) by (apply pow_lt; lra).
  apply sq_down_ok; auto; [lia|].
  apply Z.max_case_strong; intros _.
  - apply Rmult_le_pos; [lra | left; apply exp_pos].
  - apply Rmult_le_reg_r with (IZR D); [apply IZR_lt; auto|].
    eapply Rle_trans; [apply div_le; auto|]. rewrite mult_IZR, plus_IZR.
    pose proof (exp_ge (IZR n / IZR d / 2 ^ k)) as He.
    replace (IZR Q * (IZR D + IZR n)) with (IZR Q * (1 + IZR n / IZR d / 2 ^ k) * IZR D).
    2:{ rewrite HDr. field. lra. }
    apply Rmult_le_compat_r; [left; apply IZR_lt; auto|]. apply Rmult_le_compat_l; lra.
Qed.

Lemma exp_up_ok k Q n d : (0 < Q)%Z -> (0 < d)%Z -> (0 <= n)%Z ->
  IZR Q * exp (- (IZR n / IZR d)) <= IZR (exp_up k Q n d).
Proof.
  intros HQ Hd Hn. assert (HQr : 0 < IZR Q) by (apply IZR_lt; auto). assert (Hdr : 0 < IZR d) by (apply IZR_lt; auto).
  unfold exp_up. set (D := (d * 2 ^ Z.of_nat k)%Z).
  assert (HD : (0 < D)%Z) by (unfold D; apply Z.mul_pos_pos; auto; apply Z.pow_pos_nonneg; lia).
  assert (HDr : IZR D = IZR d * 2 ^ k) by (unfold D; rewrite mult_IZR, two_pow; auto).
  assert (H2 : 0 < 2 ^ k) by (apply pow_lt; lra).
  apply sq_up_ok; auto.
  apply Rmult_le_reg_r with (IZR (D + n)); [apply IZR_lt; lia|].
  eapply Rle_trans; [|apply le_cdiv; lia]. rewrite mult_IZR, plus_IZR.
  set (t := IZR n / IZR d / 2 ^ k).
  assert (Ht : IZR D + IZR n = IZR D * (1 + t)) by (unfold t; rewrite HDr; field; lra).
  replace (- (IZR n / IZR d) / 2 ^ k) with (- t) by (unfold t; field; lra).
  rewrite Ht, exp_Ropp. apply IZR_lt in HD.
  assert (Hx : (1 + t) * / exp t <= 1).
  { pose proof (exp_ge t). pose proof (exp_pos t). apply Rmult_le_reg_r with (exp t); auto.
    rewrite Rmult_assoc, Rinv_l by lra. lra. }
  replace (IZR Q * / exp t * (IZR D * (1 + t))) with (IZR Q * IZR D * ((1 + t) * / exp t)) by ring.
  rewrite <- (Rmult_1_r (IZR Q * IZR D)) at 2. apply Rmult_le_compat_l; auto.
  apply Rmult_le_pos; lra.
Qed.

Lemma shares_from_ok S Q lo hi g G : (0 < S)%Z -> (0 < Q)%Z -> 0 < g < 1 -> 0 < G < 1 ->
  (0 <= lo)%Z -> IZR lo <= IZR Q * g -> IZR Q * G <= IZR hi ->
  forall r y z, (0 <= y)%Z -> IZR y <= IZR Q * z -> z * g ^ r = G -> 0 < z <= 1 ->
  shares_ok S g G z (shares_from S Q lo hi y r).
Proof.
  intros HS HQ Hg HG Hlo Hlg HhG.
  assert (HQr : 0 < IZR Q) by (apply IZR_lt; auto). assert (HSr : 0 < IZR S) by (apply IZR_lt; auto).
  induction r; intros y z Hy Hyz HzG Hz; cbn [shares_from shares_ok].
  - simpl in HzG. lra.
  - assert (HGz : G <= z).
    { rewrite <- HzG. rewrite <- (Rmult_1_r z) at 2. apply Rmult_le_compat_l; [lra|].
      rewrite <- (pow1 (Datatypes.S r)). apply pow_incr. lra. }
    assert (Hyq : (y <= Q)%Z).
    { apply le_IZR. assert (IZR Q * z <= IZR Q * 1) by (apply Rmult_le_compat_l; lra). lra. }
    split; [|split].
    + destruct (Z.leb_spec Q hi); [lia|].
      assert (0 <= cdiv ((Q - y) * S) (Q - hi))%Z by (apply Z.div_pos; nia). lia.
    + assert (Hall : IZR S * (1 - z) <= IZR S * (1 - G)) by (apply Rmult_le_compat_l; lra).
      destruct (Z.leb_spec Q hi); auto.
      apply Z.min_case_strong; intros _; auto.
      set (u := cdiv ((Q - y) * S) (Q - hi)).
      pose proof (le_cdiv ((Q - y) * S) (Q - hi) ltac:(lia)) as Hu. fold u in Hu.
      rewrite mult_IZR, !minus_IZR in Hu.
      assert (Hu0 : 0 <= IZR u).
      { apply IZR_le. unfold u, cdiv. apply Z.div_pos; nia. }
      assert (IZR u * (IZR Q - IZR hi) <= IZR u * (IZR Q * (1 - G))) by (apply Rmult_le_compat_l; lra).
      assert (IZR Q * (1 - z) * IZR S <= (IZR Q - IZR y) * IZR S) by (apply Rmult_le_compat_r; lra).
      apply Rmult_le_reg_l with (IZR Q); auto. lra.
    + apply IHr.
      * apply Z.div_pos; nia.
      * apply Rmult_le_reg_r with (IZR Q); auto. eapply Rle_trans; [apply div_le; auto|].
        rewrite mult_IZR. apply IZR_le in Hy, Hlo.
        assert (IZR y * IZR lo <= (IZR Q * z) * (IZR Q * g)) by (apply Rmult_le_compat; lra). lra.
      * rewrite <- HzG. simpl. ring.
      * split. apply Rmult_lt_0_compat; lra.
        assert (z * g <= 1 * 1) by (apply Rmult_le_compat; lra). lra.
Qed.

Theorem shares_ok_computed k Q S n d b : (0 < S)%Z -> (0 < Q)%Z -> (0 < n)%Z -> (0 < d)%Z -> (0 <= b)%Z ->
  shares_ok S (exp (- (IZR n / IZR d))) (exp (- (IZR (2 ^ b) * (IZR n / IZR d)))) 1 (shares k Q S n d b).
Proof.
  intros HS HQ Hn Hd Hb.
  assert (Hnr : 0 < IZR n) by (apply IZR_lt; auto). assert (Hdr : 0 < IZR d) by (apply IZR_lt; auto).
  assert (Hx : 0 < IZR n / IZR d) by (apply Rmult_lt_0_compat; auto; apply Rinv_0_lt_compat; auto).
  assert (H2 : (0 < 2 ^ b)%Z) by (apply Z.pow_pos_nonneg; lia).
  assert (Hneg : forall t, 0 < t -> 0 < exp (- t) < 1).
  { intros t Ht. split; [apply exp_pos|]. rewrite <- exp_0. apply exp_increasing. lra. }
  rewrite shares_e. unfold shares_by_recursion.
  destruct (exp_down_ok k Q (- n) d HQ Hd) as [L0 L1].
  apply shares_from_ok; auto.
  - apply Hneg. apply Rmult_lt_0_compat; auto. apply IZR_lt; auto.
  - replace (- (IZR n / IZR d)) with (IZR (- n) / IZR d); auto. rewrite opp_IZR. field. lra.
  - pose proof (exp_up_ok k Q (n * 2 ^ b) d HQ Hd ltac:(nia)) as Hu.
    replace (IZR (2 ^ b) * (IZR n / IZR d)) with (IZR (n * 2 ^ b) / IZR d); auto.
    rewrite mult_IZR. field. lra.
  - lia.
  - lra.
  - rewrite Rmult_1_l, exp_pow. f_equal. rewrite INR_IZR_INZ, Z2Nat.id by lia. ring.
  - lra.
Qed.
