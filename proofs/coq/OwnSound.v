(* What the checker computes at the places of a grid encloses the curve of the law that the file states. *)
Require Import Reals ZArith List Bool Lra Lia.
Require Import Evr.Order Evr.Lists Evr.Integers Evr.Masses Evr.Powers Evr.Composer Evr.Step Evr.StepSound Evr.Reader Evr.Laws Evr.Normal.
Require Import Evr.Enclose Evr.EncloseSound Evr.Statement Evr.Sampled Evr.Batch.
Import ListNotations.
Open Scope R_scope.

(* ---------- Numbers of a law ---------- *)

Ltac cases H := repeat match type of H with context [match ?x with _ => _ end] => destruct x eqn:?; try discriminate end.
Lemma natural_pos w x : natural w = Some x -> (0 <= x)%Z.
Proof.
  assert (D : forall l x y, (0 <= x)%Z -> digits l x = Some y -> (0 <= y)%Z).
  { induction l as [|c l IH]; intros a y Ha E; cbn [digits] in E; [injection E as <-; auto|].
    destruct ((48 <=? c)%Z && (c <=? 57)%Z) eqn:Ec; [|discriminate]. apply andb_prop in Ec as [E1 _]. apply Z.leb_le in E1.
    apply (IH _ _) with (2 := E). lia. }
  unfold natural. intros E. destruct w; [discriminate|]. destruct (zlen (z :: w) <=? MOST_DIGITS)%Z; [|discriminate]. apply D with (2 := E). lia.
Qed.
Lemma plain_pos w x : plain_natural w = Some x -> (0 <= x)%Z.
Proof. unfold plain_natural. intros E. cases E; eapply natural_pos; eauto. Qed.
Lemma number_ok w a b : number w = Some (a, b) -> (0 <= a /\ 0 < b)%Z.
Proof.
  unfold number. intros E. destruct (existsb (Z.eqb 47) w).
  - cases E. apply andb_prop in Heqb0 as [Hb _]. apply andb_prop in Hb as [H1 H2]. apply Z.leb_le in H1, H2.
    injection E as <- <-. lia.
  - destruct (plain_natural w) as [p|] eqn:Ep; [|discriminate]. injection E as <- <-. pose proof (plain_pos _ _ Ep). lia.
Qed.
Lemma own_of_ok rate law o : (0 <= fst rate)%Z -> (0 < snd rate)%Z -> own_of rate law = Some o ->
  (0 < o_b o /\ 0 <= o_a o <= o_b o /\ 0 < o_c o /\ 0 < o_d o)%Z.
Proof.
  intros H1 H2 E. unfold own_of in E. cases E. injection E as <-. cbn [o_a o_b o_c o_d].
  match goal with H : number _ = Some _ |- _ => apply number_ok in H end.
  match goal with H : _ && _ = true |- _ => apply andb_prop in H as [H _]; apply andb_prop in H as [Hc Hr] end.
  apply Z.ltb_lt in Hc. apply Z.leb_le in Hr. lia.
Qed.
Lemma read_own_ok law o : read_own law = Some o -> (0 < o_b o /\ 0 <= o_a o <= o_b o /\ 0 < o_c o /\ 0 < o_d o)%Z.
Proof.
  unfold read_own. intros E.
  assert (D : own_of (1, 1)%Z law = Some o -> (0 < o_b o /\ 0 <= o_a o <= o_b o /\ 0 < o_c o /\ 0 < o_d o)%Z)
    by (apply own_of_ok; simpl; lia).
  destruct (form law) as [[name l]|]; auto. destruct l as [|x [|inner [|? ?]]]; auto.
  destruct (same name w_poisson); [|discriminate]. destruct (number x) as [[a b]|] eqn:En; [|discriminate].
  apply number_ok in En. apply own_of_ok with (3 := E); simpl; lia.
Qed.

Definition multiplier (o : own) : R := if o_square o then sqrt (IZR (o_d o) / IZR (o_c o)) else IZR (o_c o) / IZR (o_d o).

Lemma root_ok z r : (0 < z)%Z -> root z = Some r -> (0 < r)%Z /\ (r * r = z)%Z.
Proof.
  intros Hz. unfold root. destruct (Z.eqb_spec (Z.sqrt z * Z.sqrt z) z) as [E|]; [|discriminate]. intros H. injection H as <-.
  split; auto. pose proof (Z.sqrt_nonneg z). destruct (Z.eq_dec (Z.sqrt z) 0) as [E0|]; [rewrite E0 in E; lia | lia].
Qed.
Lemma multipliers_ok o B b a : (0 < o_c o)%Z -> (0 < o_d o)%Z -> (0 <= B)%Z -> multipliers o B = (b, a) ->
  (0 < fst b /\ 0 < snd b /\ 0 < fst a /\ 0 < snd a)%Z /\
  IZR (fst b) / IZR (snd b) <= multiplier o <= IZR (fst a) / IZR (snd a).
Proof.
  intros Hc Hd HB. unfold multipliers, multiplier. destruct (o_square o).
  2:{ intros E. injection E as <- <-. cbn [fst snd]. split; [auto|lra]. }
  assert (HcR : 0 < IZR (o_c o)) by (apply IZR_lt; auto). assert (HdR : 0 < IZR (o_d o)) by (apply IZR_lt; auto).
  set (x := IZR (o_d o) / IZR (o_c o)). assert (Hx : 0 < x) by (apply Rdiv_lt_0_compat; auto).
  assert (Hrest : forall b a, ((Z.sqrt (Z.shiftl (o_c o * o_d o) (2 * B)), Z.shiftl (o_c o) B),
      ((Z.sqrt (Z.shiftl (o_c o * o_d o) (2 * B)) + 1)%Z, Z.shiftl (o_c o) B)) = (b, a) ->
    (0 < fst b /\ 0 < snd b /\ 0 < fst a /\ 0 < snd a)%Z /\ IZR (fst b) / IZR (snd b) <= sqrt x <= IZR (fst a) / IZR (snd a)).
  { clear b a. intros b a E. apply pair_eq in E as [<- <-]. cbn [fst snd].
    rewrite !Z.shiftl_mul_pow2 by lia. set (z := (o_c o * o_d o * 2 ^ (2 * B))%Z).
    assert (HP : (0 < 2 ^ B)%Z) by (apply Z.pow_pos_nonneg; lia).
    assert (EP : (2 ^ (2 * B) = 2 ^ B * 2 ^ B)%Z) by (rewrite <- Z.pow_add_r by lia; f_equal; lia).
    assert (Hz : (1 <= z)%Z) by (unfold z; rewrite EP; assert (0 < o_c o * o_d o)%Z by nia; assert (0 < 2 ^ B * 2 ^ B)%Z by nia; nia).
    destruct (Z.sqrt_spec z ltac:(lia)) as [S1 S2]. set (r := Z.sqrt z) in *.
    assert (Hr0 : (0 <= r)%Z) by apply Z.sqrt_nonneg.
    assert (Hr : (0 < r)%Z) by (destruct (Z.eq_dec r 0) as [E0|]; [rewrite E0 in S2; simpl in S2; lia | lia]).
    assert (HD : (0 < o_c o * 2 ^ B)%Z) by nia.
    split; [repeat split; auto; lia|].
    apply IZR_lt in HD. set (D := IZR (o_c o * 2 ^ B)) in *.
    assert (Ez : IZR z = x * (D * D)).
    { unfold z, x, D. rewrite EP, !mult_IZR. field. lra. }
    apply IZR_le in S1. rewrite mult_IZR in S1. apply IZR_lt in S2. rewrite mult_IZR in S2. apply IZR_le in Hr0.
    unfold Z.succ in S2. set (r1 := IZR (r + 1)) in *. assert (0 <= r1) by (unfold r1; rewrite plus_IZR; lra).
    rewrite Ez in S1, S2.
    split.
    - apply Rsqr_incr_0; [|apply Rmult_le_pos; [lra | left; apply Rinv_0_lt_compat; lra] | apply sqrt_pos].
      unfold Rsqr. rewrite sqrt_sqrt by lra. apply Rmult_le_reg_r with (D * D); [nra|].
      replace (IZR r / D * (IZR r / D) * (D * D)) with (IZR r * IZR r) by (field; lra). lra.
    - apply Rsqr_incr_0; [|apply sqrt_pos | apply Rmult_le_pos; [lra | left; apply Rinv_0_lt_compat; lra]].
      unfold Rsqr. rewrite sqrt_sqrt by lra. apply Rmult_le_reg_r with (D * D); [nra|].
      replace (r1 / D * (r1 / D) * (D * D)) with (r1 * r1) by (field; lra). lra. }
  destruct (root (o_d o)) as [t|] eqn:Et; [|apply Hrest]. destruct (root (o_c o)) as [r|] eqn:Er; [|apply Hrest].
  intros E. injection E as <- <-. cbn [fst snd].
  apply root_ok in Et as [Ht Et]; auto. apply root_ok in Er as [Hr Er]; auto. split; [auto|].
  assert (HtR : 0 < IZR t) by (apply IZR_lt; auto). assert (HrR : 0 < IZR r) by (apply IZR_lt; auto).
  enough (sqrt x = IZR t / IZR r) by lra.
  replace x with ((IZR t / IZR r) * (IZR t / IZR r)).
  - apply sqrt_square. left. apply Rdiv_lt_0_compat; auto.
  - unfold x. rewrite <- Et, <- Er, !mult_IZR. field. lra.
Qed.

(* ---------- One place ---------- *)

Section one.
  Variables (n : noise) (qn qd sn sd : Z).
  Hypotheses (Hqd : (0 < qd)%Z) (Hqn : (0 <= qn <= qd)%Z) (Hsn : (0 < sn)%Z) (Hsd : (0 < sd)%Z).
  Hypotheses (Eq : rate n = IZR qn / IZR qd) (Es : dev n = IZR sn / IZR sd).
  Variables (B M : Z) (fuel : nat) (m zlo zhi : Z) (hint : Z -> Z -> Z).
  Hypotheses (HB : (0 <= B)%Z) (EM : M = (2 ^ B)%Z) (Hz : (0 < zlo)%Z).
  Hypotheses (Z1 : IZR zlo <= IZR M * G (IZR m)) (Z2 : IZR M * half_Z <= IZR zhi).

  Lemma remove_listed y d lo hi : (0 < d)%Z -> remove_at B M fuel m zlo zhi hint qn qd sn sd y d = Some (lo, hi) ->
    IZR lo <= IZR M * step_of n remove (excess (IZR y / IZR d)) <= IZR hi.
  Proof.
    intros Hd.
    apply (remove_at_ok B M fuel HB EM m zlo zhi Hz Z1 Z2 hint qn qd sn sd Hqd Hqn Hsn Hsd); auto; try apply step_nonneg; rewrite <- Eq.
    - intros H. apply curve_flat. exact H.
    - intros L H1 H2. rewrite <- Es. exact (@curve_lower n remove (IZR y / IZR d) L H1 H2).
    - intros L H1 H2. rewrite <- Es. exact (@curve_upper n remove (IZR y / IZR d) L H1 H2).
  Qed.
  Lemma add_listed y d lo hi : (0 < d)%Z -> add_at B M fuel m zlo zhi hint qn qd sn sd y d = Some (lo, hi) ->
    IZR lo <= IZR M * step_of n add (excess (IZR y / IZR d)) <= IZR hi.
  Proof.
    intros Hd.
    apply (add_at_ok B M fuel HB EM m zlo zhi Hz Z1 Z2 hint qn qd sn sd Hqd Hqn Hsn Hsd); auto; try apply step_nonneg; rewrite <- Eq.
    - intros H. apply curve_zero. exact H.
    - intros L H1 H2. rewrite <- Es. exact (@curve_lower n add (IZR y / IZR d) L H1 H2).
    - intros L H1 H2. rewrite <- Es. exact (@curve_upper n add (IZR y / IZR d) L H1 H2).
  Qed.
End one.

Lemma rounded_ok M V b v d h : (0 < M)%Z -> (0 < V)%Z -> rounded M V b = Some (v, d) ->
  (forall lo hi, b = Some (lo, hi) -> IZR lo <= IZR M * h <= IZR hi) -> IZR v <= IZR V * h <= IZR (v + d).
Proof.
  intros HM HV E Hb. unfold rounded in E. destruct b as [[lo hi]|]; [|discriminate].
  destruct (cdiv (V * hi) M - V * lo / M <=? 1)%Z; [|discriminate]. injection E as <- <-.
  replace (V * lo / M + (cdiv (V * hi) M - V * lo / M))%Z with (cdiv (V * hi) M) by lia.
  destruct (Hb _ _ eq_refl) as [B1 B2].
  assert (HMR : 0 < IZR M) by (apply IZR_lt; auto). assert (HVR : 0 < IZR V) by (apply IZR_lt; auto).
  assert (A1 : IZR V * IZR lo <= IZR V * (IZR M * h)) by (apply Rmult_le_compat_l; lra).
  assert (A2 : IZR V * (IZR M * h) <= IZR V * IZR hi) by (apply Rmult_le_compat_l; lra).
  split.
  - eapply Rle_trans; [apply fdiv_le; auto|]. rewrite mult_IZR. apply Rmult_le_reg_r with (IZR M); auto.
    unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra.
  - eapply Rle_trans; [|apply le_cdivR; auto]. rewrite mult_IZR. apply Rmult_le_reg_r with (IZR M); auto.
    unfold Rdiv at 1. rewrite (Rmult_assoc (IZR V * IZR hi)), Rinv_l by lra. lra.
Qed.

(* [at_ c d] encloses M H for the noise multiplier c / d *)
Lemma bracket_ok (n : noise) dir y M b a at_ lo hi : (0 < M)%Z ->
  (0 < fst b /\ 0 < snd b /\ 0 < fst a /\ 0 < snd a)%Z -> IZR (fst b) / IZR (snd b) <= dev n <= IZR (fst a) / IZR (snd a) ->
  (forall n' c d lo hi, (0 < c)%Z -> (0 < d)%Z -> rate n' = rate n -> dev n' = IZR c / IZR d -> at_ c d = Some (lo, hi) ->
     IZR lo <= IZR M * step_of n' dir (excess y) <= IZR hi) ->
  bracket b a at_ = Some (lo, hi) -> IZR lo <= IZR M * step_of n dir (excess y) <= IZR hi.
Proof.
  intros HM (P1 & P2 & P3 & P4) [Q1 Q2] Hat E. apply IZR_lt in HM. pose proof (K_phi y) as Kf.
  assert (D1 : 0 < IZR (fst b) / IZR (snd b)) by (apply Rdiv_lt_0_compat; apply IZR_lt; auto).
  assert (D2 : 0 < IZR (fst a) / IZR (snd a)) by (apply Rdiv_lt_0_compat; apply IZR_lt; auto).
  pose proof (@noise_mono (Noise (rate_ok n) D1) n dir _ eq_refl Q1 Kf) as M1.
  pose proof (@noise_mono n (Noise (rate_ok n) D2) dir _ eq_refl Q2 Kf) as M2.
  unfold bracket in E. destruct (at_ (fst b) (snd b)) as [[lb hb]|] eqn:Eb; [|discriminate].
  pose proof (Hat (Noise (rate_ok n) D1) _ _ _ _ P1 P2 eq_refl eq_refl Eb) as B1.
  destruct ((fst b =? fst a)%Z && (snd b =? snd a)%Z) eqn:Es.
  - apply some_pair in E as [<- <-]. apply andb_prop in Es as [E1 E2]. apply Z.eqb_eq in E1, E2.
    assert (Q3 : dev n <= IZR (fst b) / IZR (snd b)) by (rewrite E1, E2; auto).
    pose proof (@noise_mono n (Noise (rate_ok n) D1) dir _ eq_refl Q3 Kf) as M3.
    replace (step_of n dir (excess y)) with (step_of (Noise (rate_ok n) D1) dir (excess y)); auto. apply Rle_antisym; auto.
  - destruct (at_ (fst a) (snd a)) as [[la ha]|] eqn:Ea; [|discriminate]. apply some_pair in E as [<- <-].
    pose proof (Hat (Noise (rate_ok n) D2) _ _ _ _ P3 P4 eq_refl eq_refl Ea) as B2. split.
    + eapply Rle_trans; [apply B2|]. apply Rmult_le_compat_l; [lra|exact M2].
    + eapply Rle_trans; [|apply B1]. apply Rmult_le_compat_l; [lra|exact M1].
Qed.

(* ---------- All places ---------- *)

Lemma each_ok (Q : Z -> Z * Z -> Prop) at1 at2 : (forall p vd, at1 p = Some vd -> Q p vd) -> (forall p vd, at2 p = Some vd -> Q p vd) ->
  forall ps i out values, each at1 at2 ps i out = Values values -> exists l, values = rev out ++ l /\ Forall2 Q ps l.
Proof.
  intros H1 H2. induction ps as [|p ps IH]; intros i out values E; simpl in E.
  - injection E as <-. exists []. rewrite rev_append_rev. auto.
  - assert (N : forall vd, Q p vd -> each at1 at2 ps (i + 1) (vd :: out) = Values values -> exists l, values = rev out ++ l /\ Forall2 Q (p :: ps) l).
    { intros vd Hq E'. destruct (IH _ _ _ E') as (l & -> & F). exists (vd :: l). simpl. rewrite <- app_assoc. auto. }
    destruct (at1 p) as [vd|] eqn:E1; [eauto|]. destruct (at2 p) as [vd|] eqn:E2; [eauto|discriminate].
Qed.

Theorem own_piece_ok den spacing up law kd ps i values n : own_piece den spacing up law kd ps i = Values values -> states law n ->
  Forall2 (fun p vd => IZR (fst vd) <= IZR (2 ^ k_vbits kd) * step_of n (if up then remove else add) (excess (loss den spacing (k_grid kd) p)) <= IZR (fst vd + snd vd))
    ps values.
Proof.
  intros E (o & El & Er & Ed). destruct (read_own_ok _ _ El) as (Hb & Ha & Hc & Hd). fold (multiplier o) in Ed.
  unfold own_piece in E. rewrite El in E.
  set (g := k_grid kd) in *. set (w := k_vbits kd) in *. set (e := extra den spacing g) in *.
  set (B2 := (2 * w + 280 + 2 * e)%Z) in *. set (B1 := Z.min B2 (w + 190 + e)) in *.
  set (fuel := Z.to_nat (8 * (w + e) + 1200)) in *. set (m := (Z.sqrt (7 * (w + 100 + e) / 5) + 1)%Z) in *.
  destruct (half_z B2 (2 ^ B2) fuel m) as [zlo zhi] eqn:EZ.
  set (zlo1 := (zlo / 2 ^ (B2 - B1))%Z) in *. set (zhi1 := cdiv zhi (2 ^ (B2 - B1))) in *.
  destruct (multipliers o B2) as [below above] eqn:Em.
  match type of E with (if ?c then _ else _) = _ => destruct c eqn:Ec; [|discriminate] end.
  rewrite !andb_true_iff in Ec. destruct Ec as [[[[[[E1 E2] E3] E4] E5] E6] E7].
  apply Z.leb_le in E1, E5, E6, E7. apply Z.ltb_lt in E2, E3, E4.
  assert (HM1 : (0 < 2 ^ B1)%Z) by (apply Z.pow_pos_nonneg; lia).
  assert (HB2 : (0 <= B2)%Z) by lia.
  assert (HM2 : (0 < 2 ^ B2)%Z) by (apply Z.pow_pos_nonneg; lia).
  assert (HC : (0 < 2 ^ (B2 - B1))%Z) by (apply Z.pow_pos_nonneg; lia).
  assert (EC : (2 ^ B2 = 2 ^ B1 * 2 ^ (B2 - B1))%Z) by (rewrite <- Z.pow_add_r by lia; f_equal; lia).
  assert (HV : (0 < 2 ^ w)%Z) by (apply Z.pow_pos_nonneg; lia).
  assert (HS : (0 < size g)%Z) by (apply Z.pow_pos_nonneg; lia).
  assert (HD : (0 < den * size g)%Z) by (apply Z.mul_pos_pos; auto).
  destruct (half_z_ok B2 (2 ^ B2) fuel HB2 eq_refl m zlo zhi E2 EZ) as [Z1 Z2].
  assert (Hz : (0 < zlo)%Z). { destruct (Z.lt_ge_cases 0 zlo) as [h|h]; auto. assert (zlo1 <= 0)%Z by (unfold zlo1; apply Z.div_le_upper_bound; lia). lia. }
  assert (HCR : 0 < IZR (2 ^ (B2 - B1))) by (apply IZR_lt; auto).
  assert (Z1' : IZR zlo1 <= IZR (2 ^ B1) * G (IZR m)).
  { unfold zlo1. eapply Rle_trans; [apply fdiv_le; auto|]. rewrite EC, mult_IZR in Z1. apply Rmult_le_reg_r with (IZR (2 ^ (B2 - B1))); auto.
    unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra. }
  assert (Z2' : IZR (2 ^ B1) * half_Z <= IZR zhi1).
  { unfold zhi1. eapply Rle_trans; [|apply le_cdivR; auto]. rewrite EC, mult_IZR in Z2. apply Rmult_le_reg_r with (IZR (2 ^ (B2 - B1))); auto.
    unfold Rdiv. rewrite (Rmult_assoc (IZR zhi)), Rinv_l by lra. lra. }
  destruct (multipliers_ok o B2 below above Hc Hd HB2 Em) as [Pm Qm]. rewrite <- Ed in Qm.
  assert (L : forall p, loss den spacing g p = IZR (g_off g * size g + p * spacing) / IZR (den * size g)).
  { intros p. unfold loss. apply IZR_lt in HS, E4. rewrite plus_IZR, !mult_IZR. field. lra. }
  assert (At : forall B zl zh p vd, (0 <= B)%Z -> (0 < zl)%Z -> IZR zl <= IZR (2 ^ B) * G (IZR m) -> IZR (2 ^ B) * half_Z <= IZR zh ->
    rounded (2 ^ B) (2 ^ w) (bracket below above (fun sn sd =>
      (if up then remove_at else add_at) B (2 ^ B)%Z fuel m zl zh (hint_of fuel B (2 ^ (B - w - 80))) (o_a o) (o_b o) sn sd
        (g_off g * size g + p * spacing)%Z (den * size g)%Z)) = Some vd ->
    IZR (fst vd) <= IZR (2 ^ w) * step_of n (if up then remove else add) (excess (loss den spacing g p)) <= IZR (fst vd + snd vd)).
  { intros B zl zh p [v d] HB Hzl A1 A2 Er'. assert (HM : (0 < 2 ^ B)%Z) by (apply Z.pow_pos_nonneg; lia).
    apply (rounded_ok _ _ _ _ _ _ HM HV Er'). intros lo hi Eb.
    apply (bracket_ok n _ _ _ _ _ _ _ _ HM Pm Qm) with (2 := Eb).
    intros n' c d' lo' hi' Hc' Hd' Er1 Ed1 Ea. rewrite L. rewrite Er in Er1.
    destruct up.
    - exact (remove_listed n' _ _ _ _ Hb Ha Hc' Hd' Er1 Ed1 _ _ _ _ _ _ _ HB eq_refl Hzl A1 A2 _ _ _ _ HD Ea).
    - exact (add_listed n' _ _ _ _ Hb Ha Hc' Hd' Er1 Ed1 _ _ _ _ _ _ _ HB eq_refl Hzl A1 A2 _ _ _ _ HD Ea). }
  destruct (each_ok (fun p vd => IZR (fst vd) <= IZR (2 ^ w) * step_of n (if up then remove else add) (excess (loss den spacing g p)) <= IZR (fst vd + snd vd))
    _ _ (fun p vd => At B1 zlo1 zhi1 p vd E6 E3 Z1' Z2') (fun p vd => At B2 zlo zhi p vd HB2 Hz Z1 Z2) ps i [] values E) as (l & -> & F).
  exact F.
Qed.

(* Where every record is drawn, both directions have the same curve. *)
Lemma one_way n y : rate n = 1 -> step_of n remove (excess y) = step_of n add (excess y).
Proof.
  intros Hr. pose proof (exp_pos y) as He.
  assert (E : forall d, step_of n d (excess y) = Phi (upper_arg n y) - exp y * Phi (lower_arg n y)).
  { intros d. assert (A : alpha n d (exp y) = 1) by (destruct d; unfold alpha; rewrite Hr; ring).
    assert (B : beta n d (exp y) = exp y) by (destruct d; unfold beta; rewrite Hr; ring).
    rewrite (@curve_exact n d y y), A, B by (rewrite ?A, ?B; lra). ring. }
  rewrite !E. reflexivity.
Qed.
