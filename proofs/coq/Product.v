(* Products of lists of non-negative integers by one product of two long integers (Kronecker substitution). *)
Require Import ZArith List Lia.
Require Import Evr.Integers.
Import ListNotations.
Open Scope Z_scope.

Fixpoint pairs (k : Z) (l : list Z) : list Z :=
  match l with a :: b :: l' => (a + Z.shiftl b k) :: pairs k l' | _ => l end.
Fixpoint pack (fuel : list Z) (k : Z) (l : list Z) : Z :=
  match l, fuel with
  | [], _ => 0
  | [a], _ => a
  | _, _ :: f => pack f (2 * k) (pairs k l)
  | _, [] => 0
  end.
Fixpoint unpack (d : nat) (k z : Z) (acc : list Z) : list Z :=
  match d with
  | O => z :: acc
  | S d' =>
      let m := k * 2 ^ Z.of_nat d' in
      let hi := Z.shiftr z m in
      let lo := z - Z.shiftl hi m in
      unpack d' k lo (unpack d' k hi acc)
  end.
Fixpoint pairs_a (k : Z) (l acc : list Z) : list Z :=
  match l with a :: b :: l' => pairs_a k l' (a + Z.shiftl b k :: acc) | _ => rev_append acc l end.
Definition pairs_t k l := pairs_a k l [].
Fixpoint pack_t (fuel : list Z) (k : Z) (l : list Z) : Z :=
  match l, fuel with
  | [], _ => 0
  | [a], _ => a
  | _, _ :: f => pack_t f (2 * k) (pairs_t k l)
  | _, [] => 0
  end.
Definition kmul (p q : list Z) : list Z :=
  match p, q with
  | [], _ => []
  | _, [] => map_t _ _ (fun _ => 0) p
  | _, _ =>
      let n := zlen p + zlen q - 1 in
      let k := Z.log2 (zsum_t p * zsum_t q) + 1 in
      take_t _ (unpack (Z.to_nat (Z.log2_up n)) k (pack_t p k p * pack_t q k q) []) n
  end.
Definition ksqr (p : list Z) : list Z :=
  match p with
  | [] => []
  | _ =>
      let n := zlen p + zlen p - 1 in
      let k := Z.log2 (zsum_t p * zsum_t p) + 1 in
      let P := pack_t p k p in
      take_t _ (unpack (Z.to_nat (Z.log2_up n)) k (P * P) []) n
  end.

Lemma pairs_e : pairs_t = pairs.
Proof.
  ext. unfold pairs_t.
  enough (H : forall n k l acc, (length l <= n)%nat -> pairs_a k l acc = rev_append acc (pairs k l)) by (apply (H (length x0)); auto).
  induction n; intros k [|a [|b l]] acc Hl; simpl in *; try lia; try reflexivity; auto. rewrite IHn by lia. auto.
Qed.
Lemma pack_e : pack_t = pack.
Proof. ext. revert x0 x1. induction x as [|z f IH]; intros k [|a [|b l]]; try reflexivity. cbn [pack_t pack]. rewrite pairs_e. apply IH. Qed.

Fixpoint evZ (X : Z) (l : list Z) : Z := match l with [] => 0 | a :: l' => a + X * evZ X l' end.
Definition nnZ (l : list Z) := Forall (fun z => 0 <= z) l.

Lemma pairs_ok k : 0 <= k -> forall n l, (length l <= n)%nat -> evZ (2 ^ (2 * k)) (pairs k l) = evZ (2 ^ k) l.
Proof.
  intros Hk. replace (2 * k) with (k + k) by lia. rewrite Z.pow_add_r by lia.
  induction n; intros [|a [|b l]] Hl; simpl in Hl; try lia; cbn [pairs evZ]; try lia.
  rewrite IHn by lia. rewrite Z.shiftl_mul_pow2 by lia. ring.
Qed.

Lemma pairs_length k : forall n l, (length l <= n)%nat -> (length (pairs k l) <= length l)%nat /\
  (2 <= length l -> length (pairs k l) < length l)%nat.
Proof.
  induction n; intros [|a [|b l]] Hl; simpl in *; try lia. destruct (IHn l); lia.
Qed.

Lemma pack_ok fuel : forall k l, 0 <= k -> (length l <= length fuel)%nat -> pack fuel k l = evZ (2 ^ k) l.
Proof.
  induction fuel; intros k l Hk Hl.
  - destruct l; simpl in *; [auto | lia].
  - destruct l as [|x [|y l]]; [auto | simpl; lia |].
    transitivity (pack fuel (2 * k) (pairs k (x :: y :: l))); [auto|].
    rewrite IHfuel.
    + apply (pairs_ok _ Hk (length (x :: y :: l))). lia.
    + lia.
    + destruct (pairs_length k _ (x :: y :: l) (le_n _)) as [_ Hp].
      assert (length (pairs k (x :: y :: l)) < length (x :: y :: l))%nat by (apply Hp; simpl; lia).
      simpl in *. lia.
Qed.

Lemma evZ_app X a : forall b, evZ X (a ++ b) = evZ X a + X ^ Z.of_nat (length a) * evZ X b.
Proof.
  induction a; intros; cbn [app evZ length].
  - rewrite Z.pow_0_r. lia.
  - rewrite IHa, Nat2Z.inj_succ, Z.pow_succ_r by lia. ring.
Qed.

Lemma unpack_ok d : forall k z acc, 0 < k -> 0 <= z < 2 ^ (k * 2 ^ Z.of_nat d) ->
  exists u, unpack d k z acc = u ++ acc /\ Z.of_nat (length u) = 2 ^ Z.of_nat d /\
    evZ (2 ^ k) u = z /\ Forall (fun x => 0 <= x < 2 ^ k) u.
Proof.
  induction d; intros k z acc Hk Hz.
  - exists [z]. cbn in *. rewrite Z.mul_1_r in Hz. repeat split; try lia. constructor; auto.
  - cbn [unpack]. set (m := k * 2 ^ Z.of_nat d) in *.
    assert (Hp : 0 < 2 ^ Z.of_nat d) by (apply Z.pow_pos_nonneg; lia).
    assert (Hm : 0 <= m) by (unfold m; nia).
    rewrite Nat2Z.inj_succ, Z.pow_succ_r in Hz by lia.
    replace (k * (2 * 2 ^ Z.of_nat d)) with (m + m) in Hz by (unfold m; ring).
    rewrite Z.pow_add_r in Hz by lia.
    rewrite Z.shiftl_mul_pow2, Z.shiftr_div_pow2 by lia.
    assert (H2 : 0 < 2 ^ m) by (apply Z.pow_pos_nonneg; lia).
    pose proof (Z.div_mod z (2 ^ m)) as Hdm. pose proof (Z.mod_pos_bound z (2 ^ m) H2).
    assert (Hhi : 0 <= z / 2 ^ m < 2 ^ m).
    { split. apply Z.div_pos; lia. apply Z.div_lt_upper_bound; lia. }
    destruct (IHd k (z / 2 ^ m) acc Hk Hhi) as (u1 & E1 & L1 & V1 & F1).
    assert (Hlo : 0 <= z - z / 2 ^ m * 2 ^ m < 2 ^ m).
    { specialize (Hdm ltac:(lia)). rewrite Z.mul_comm. lia. }
    destruct (IHd k (z - z / 2 ^ m * 2 ^ m) (u1 ++ acc) Hk Hlo) as (u2 & E2 & L2 & V2 & F2).
    exists (u2 ++ u1). rewrite E1, E2. split; [apply app_assoc|]. split; [|split].
    + rewrite app_length, Nat2Z.inj_add, Nat2Z.inj_succ, Z.pow_succ_r by lia. lia.
    + rewrite evZ_app, V1, V2, L2. rewrite <- Z.pow_mul_r by lia. fold m. ring.
    + apply Forall_app; auto.
Qed.

Lemma digits X t : 0 < X -> forall u, (length t <= length u)%nat ->
  Forall (fun x => 0 <= x < X) t -> Forall (fun x => 0 <= x < X) u -> evZ X t = evZ X u ->
  take u (Z.of_nat (length t)) = t.
Proof.
  intros HX. induction t; intros u Hl Ht Hu He.
  - destruct u; auto.
  - destruct u as [|b u]; [simpl in Hl; lia|].
    inversion Ht; inversion Hu; subst. cbn [evZ] in He.
    assert (a = b /\ evZ X t = evZ X u) as [-> He'].
    { assert (Hm : (a + X * evZ X t) mod X = (b + X * evZ X u) mod X) by (f_equal; auto).
      rewrite !(Z.mul_comm X), !Z.mod_add in Hm by lia. rewrite !Z.mod_small in Hm by lia. nia. }
    cbn [take length]. destruct (Z.leb_spec (Z.of_nat (S (length t))) 0); [lia|].
    replace (Z.of_nat (S (length t)) - 1) with (Z.of_nat (length t)) by lia.
    f_equal. apply IHt; auto. simpl in Hl; lia.
Qed.

Lemma evZ_gadd X p : forall q, evZ X (zadd p q) = evZ X p + evZ X q.
Proof.
  unfold zadd. induction p; intros [|b q]; cbn [gadd evZ]; try ring. rewrite IHp. ring.
Qed.
Lemma evZ_map X a q : evZ X (map (Z.mul a) q) = a * evZ X q.
Proof. induction q; cbn [map evZ]; [ring | rewrite IHq; ring]. Qed.
Lemma evZ_mul X p q : evZ X (zmul p q) = evZ X p * evZ X q.
Proof.
  unfold zmul. induction p; cbn [gmul evZ]; [ring|].
  change (gadd Z.add) with zadd. rewrite evZ_gadd, evZ_map. cbn [evZ]. rewrite IHp. ring.
Qed.
Lemma evZ_sum l : evZ 1 l = zsum l.
Proof. induction l; cbn [evZ zsum]; [auto | rewrite IHl; lia]. Qed.

Lemma nn_gadd p : nnZ p -> forall q, nnZ q -> nnZ (zadd p q).
Proof.
  unfold zadd. induction 1; intros q Hq; cbn [gadd]; auto.
  inversion Hq; subst; constructor; auto; try lia. apply IHForall; auto.
Qed.
Lemma nn_mul p : nnZ p -> forall q, nnZ q -> nnZ (zmul p q).
Proof.
  unfold zmul. induction 1; intros q Hq; cbn [gmul]; [constructor|].
  apply nn_gadd; [|constructor; [lia | apply IHForall; auto]].
  induction Hq; cbn [map]; constructor; auto. lia.
Qed.
Lemma len_gadd p : forall q, length (zadd p q) = Nat.max (length p) (length q).
Proof. unfold zadd. induction p; intros [|b q]; cbn [gadd length]; auto. rewrite IHp. lia. Qed.
Lemma len_mul p : forall q, p <> [] -> q <> [] -> length (zmul p q) = (length p + length q - 1)%nat.
Proof.
  unfold zmul. induction p; intros q Hp Hq; [tauto|]. cbn [gmul].
  change (gadd Z.add) with zadd. rewrite len_gadd, map_length. cbn [length].
  destruct q; [tauto|]. cbn [length].
  destruct p; [cbn; lia|]. rewrite IHp by discriminate. cbn [length]. lia.
Qed.
Lemma zlen_len l : zlen l = Z.of_nat (length l).
Proof.
  unfold zlen. assert (forall l n, fold_left (fun n (_ : Z) => n + 1) l n = n + Z.of_nat (length l)) as ->.
  { clear; induction l; intros; cbn [fold_left length]; [lia | rewrite IHl; lia]. }
  auto.
Qed.
Lemma nn_le_sum l : nnZ l -> 0 <= zsum l /\ forall x, In x l -> x <= zsum l.
Proof.
  induction 1; cbn [zsum In]; [split; [lia | tauto]|].
  destruct IHForall as [A B]. split; [lia|]. intros y [->|Hy]; [lia|]. specialize (B y Hy). lia.
Qed.
Lemma ev_bound X l : 0 < X -> Forall (fun x => 0 <= x < X) l -> 0 <= evZ X l < X ^ Z.of_nat (length l).
Proof.
  intros HX. induction 1; cbn [evZ length]; [cbn; lia|].
  rewrite Nat2Z.inj_succ, Z.pow_succ_r by lia. nia.
Qed.

Lemma zmul_nil p : zmul p [] = map (fun _ => 0) p.
Proof. unfold zmul. induction p; simpl; try reflexivity; auto. rewrite IHp. auto. Qed.

Theorem kmul_ok p q : nnZ p -> nnZ q -> kmul p q = zmul p q.
Proof.
  intros Hp Hq. unfold kmul. rewrite take_e, zsum_e, pack_e, map_e.
  destruct p as [|a p]; [auto|]. destruct q as [|b q]; [symmetry; apply zmul_nil|].
  set (P := a :: p) in *. set (Q := b :: q) in *. rewrite !zlen_len.
  set (k := Z.log2 (zsum P * zsum Q) + 1).
  assert (Hk : 0 < k) by (unfold k; pose proof (Z.log2_nonneg (zsum P * zsum Q)); lia).
  rewrite !pack_ok by lia.
  assert (HL : Z.of_nat (length P) + Z.of_nat (length Q) - 1 = Z.of_nat (length (zmul P Q))).
  { rewrite len_mul by discriminate. unfold P, Q; cbn [length]; lia. }
  rewrite HL, <- evZ_mul.
  assert (H2 : 0 < 2 ^ k) by (apply Z.pow_pos_nonneg; lia).
  assert (Hb : zsum P * zsum Q < 2 ^ k).
  { destruct (nn_le_sum _ Hp) as [A _], (nn_le_sum _ Hq) as [B _].
    destruct (Z.eq_dec (zsum P * zsum Q) 0) as [->|]; [lia|]. unfold k.
    apply Z.log2_spec. nia. }
  assert (HD : Forall (fun x => 0 <= x < 2 ^ k) (zmul P Q)).
  { pose proof (nn_mul _ Hp _ Hq) as Hn. destruct (nn_le_sum _ Hn) as [_ Hx].
    rewrite <- evZ_sum, evZ_mul, !evZ_sum in Hx.
    apply Forall_forall. intros x Hin. specialize (Hx x Hin).
    unfold nnZ in Hn. rewrite Forall_forall in Hn. specialize (Hn x Hin). lia. }
  set (n := Z.of_nat (length (zmul P Q))) in *.
  assert (Hn : 1 <= n) by (rewrite <- HL; unfold P, Q; cbn [length]; lia).
  set (d := Z.to_nat (Z.log2_up n)).
  assert (Hd : n <= 2 ^ Z.of_nat d).
  { unfold d. rewrite Z2Nat.id by apply Z.log2_up_nonneg.
    destruct (Z.eq_dec n 1) as [->|]; [cbn; lia|]. apply Z.log2_up_spec. lia. }
  destruct (unpack_ok d k (evZ (2 ^ k) (zmul P Q)) [] Hk) as (u & Eu & Lu & Vu & Fu).
  { pose proof (ev_bound _ _ H2 HD) as [A B]. split; auto.
    eapply Z.lt_le_trans; [apply B|]. rewrite <- Z.pow_mul_r by lia.
    apply Z.pow_le_mono_r; [lia|]. fold n. nia. }
  rewrite Eu, app_nil_r. apply (digits (2 ^ k)); auto. lia.
Qed.

Theorem ksqr_ok p : nnZ p -> ksqr p = zmul p p.
Proof. intros Hp. rewrite <- kmul_ok by auto. destruct p; reflexivity. Qed.
