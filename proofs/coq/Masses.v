(* S4: real masses below integer ones on a uniform grid of losses; each integer operation keeps the order. *)
Require Import Reals ZArith List Lra Lia.
Require Import Evr.Order Evr.Integers.
Import ListNotations.
Open Scope R_scope.

Definition le (s r : R) (z : Z) : Prop := 0 <= r /\ r * s <= IZR z.
Definition pt (h o : R) (i : Z) : R := exp (- (o + IZR i * h)).

(* nu has its masses at the losses o + i h, i = first M, ..., each at most the integer, in units 1/s *)
Definition below (s h o : R) (M : masses) (nu : (R -> R) -> R) : Prop :=
  exists l, Forall2 (le s) l (coef M) /\
    forall f, nu f = ev (exp (- h)) (pt h o (first M)) l f.

Lemma pt_pos h o i : 0 < pt h o i. Proof. apply exp_pos. Qed.
Lemma pt_next h o i : pt h o i * exp (- h) = pt h o (i + 1).
Proof. unfold pt. rewrite <- exp_plus. f_equal. rewrite plus_IZR. ring. Qed.
Lemma exp_pow y n : exp y ^ n = exp (INR n * y).
Proof.
  induction n. simpl. rewrite Rmult_0_l, exp_0; auto.
  rewrite S_INR. simpl pow. rewrite IHn, <- exp_plus. f_equal. ring.
Qed.
Lemma pt_far h o i n : pt h o i * exp (- h) ^ n = pt h o (i + Z.of_nat n).
Proof.
  rewrite exp_pow. unfold pt. rewrite <- exp_plus. f_equal. rewrite plus_IZR, <- INR_IZR_INZ. ring.
Qed.

Lemma nn_exp y : 0 <= exp y. Proof. left; apply exp_pos. Qed.
Lemma nn_pt h o i : 0 <= pt h o i. Proof. left; apply pt_pos. Qed.
Global Hint Resolve nn_exp nn_pt : core.

Lemma F2_length {A B} (P : A -> B -> Prop) l m : Forall2 P l m -> length l = length m.
Proof. induction 1; simpl; auto. Qed.

Lemma le_nonneg s l m : Forall2 (le s) l m -> nonneg l.
Proof. induction 1; constructor; auto. apply H. Qed.

Lemma le_Znonneg s l m : 0 < s -> Forall2 (le s) l m -> Forall (fun z => (0 <= z)%Z) m.
Proof.
  intros Hs. induction 1; constructor; auto. destruct H.
  apply le_IZR. apply Rle_trans with (x * s); auto. apply Rmult_le_pos; lra.
Qed.

(* finite measures *)
Record fm (nu : (R -> R) -> R) : Prop := {
  fm_mono : forall f g, (forall y, 0 <= y -> f y <= g y) -> nu f <= nu g;
  fm_plus : forall f g, nu (fun y => f y + g y) = nu f + nu g;
  fm_scal : forall c f, nu (fun y => c * f y) = c * nu f;
  fm_K : forall f, K f -> K (fun x => nu (fun y => f (x * y))) }.

Lemma fm_ev h x l : 0 <= h -> 0 <= x -> nonneg l -> fm (ev h x l).
Proof.
  intros; constructor; intros.
  - apply ev_mono; auto.
  - apply ev_plus.
  - apply ev_scal.
  - apply K_ev; auto.
Qed.

Lemma below_fm s h o M nu : below s h o M nu -> fm nu.
Proof.
  intros (l & Hl & He). pose proof (le_nonneg _ _ _ Hl) as Hn.
  destruct (fm_ev (exp (-h)) (pt h o (first M)) l) as [a b c d]; auto.
  constructor; intros; rewrite ?He; auto.
  destruct (d f H) as [p q r].
  constructor; intros; rewrite ?He; auto.
Qed.

Lemma fm_ext nu f g : fm nu -> (forall x, 0 <= x -> f x = g x) -> nu f = nu g.
Proof. intros H E; apply Rle_antisym; apply (fm_mono _ H); intros; rewrite E; auto; lra. Qed.

Lemma fm_const nu c : fm nu -> nu (fun _ => c) = c * nu (fun _ => 1).
Proof. intros H. rewrite <- (fm_scal _ H). apply (fm_ext _ _ _ H). intros; ring. Qed.

Lemma fm_pos nu f : fm nu -> (forall y, 0 <= y -> 0 <= f y) -> 0 <= nu f.
Proof.
  intros H Hf. replace 0 with (nu (fun _ => 0)). apply (fm_mono _ H); auto.
  rewrite (fm_const _ _ H). ring.
Qed.

Lemma below_intro s h o i l m :
  Forall2 (le s) l m -> below s h o (Masses i m) (ev (exp (- h)) (pt h o i) l).
Proof. intros H; exists l; split; auto. Qed.

Lemma below_nothing s h o : below s h o nothing (fun _ => 0).
Proof. exists []; split; auto. constructor. Qed.

Lemma zeros_succ {A} (z : A) p l : zeros z (Zpos (Pos.succ p)) l = z :: zeros z (Zpos p) l.
Proof. unfold zeros. rewrite Pos.iter_succ. auto. Qed.

Lemma ev_zeros h o k : (0 <= k)%Z -> forall i l f,
  ev (exp (- h)) (pt h o i) (zeros 0 k l) f = ev (exp (- h)) (pt h o (i + k)) l f.
Proof.
  intros Hk; destruct k as [|p|p]; try lia; clear Hk.
  - intros; simpl zeros; rewrite Z.add_0_r; auto.
  - induction p using Pos.peano_ind; intros.
    + simpl. rewrite pt_next. ring.
    + rewrite zeros_succ. cbn [ev]. rewrite pt_next, IHp. replace (i + 1 + Z.pos p)%Z with (i + Z.pos (Pos.succ p))%Z by lia. ring.
Qed.

Lemma Forall2_zeros s k l m : Forall2 (le s) l m -> Forall2 (le s) (zeros 0 k l) (zeros 0%Z k m).
Proof.
  intros H; destruct k as [|p|p]; auto.
  assert (le s 0 0) by (split; lra).
  induction p using Pos.peano_ind; [simpl; constructor; auto|].
  rewrite !zeros_succ. constructor; auto.
Qed.

Lemma ev_gadd h l : forall x m f, ev h x (gadd Rplus l m) f = ev h x l f + ev h x m f.
Proof.
  induction l; intros; simpl; [destruct m; simpl; ring|].
  destruct m; simpl; [ring|]. rewrite IHl. ring.
Qed.

Lemma le_plus s a b z y : le s a z -> le s b y -> le s (a + b) (z + y).
Proof. intros [] []; split; [lra|]. rewrite plus_IZR; lra. Qed.

Lemma Forall2_gadd s l m : Forall2 (le s) l m -> forall l' m', Forall2 (le s) l' m' ->
  Forall2 (le s) (gadd Rplus l l') (zadd m m').
Proof.
  induction 1; intros; simpl; auto.
  inversion H1; subst; simpl; constructor; auto; try (apply le_plus; auto); apply IHForall2; auto.
Qed.

Lemma below_madd s h o M N nu nu' : below s h o M nu -> below s h o N nu' ->
  below s h o (madd M N) (fun f => nu f + nu' f).
Proof.
  intros (l & Hl & He) (l' & Hl' & He'). unfold madd. rewrite zadd_e.
  destruct (coef M) eqn:HM.
  { inversion Hl; subst. exists l'; split; auto. intros. rewrite He, He'; simpl; ring. }
  destruct (coef N) eqn:HN.
  { inversion Hl'; subst. exists l; split; auto. rewrite HM; auto. intros. rewrite He, He'; simpl; ring. }
  rewrite <- HM, <- HN in *. clear HM HN.
  set (low := Z.min (first M) (first N)).
  exists (gadd Rplus (zeros 0 (first M - low) l) (zeros 0 (first N - low) l')).
  simpl; split.
  - apply Forall2_gadd; apply Forall2_zeros; auto.
  - intros f. rewrite ev_gadd, !ev_zeros by lia.
    replace (low + (first M - low))%Z with (first M) by lia.
    replace (low + (first N - low))%Z with (first N) by lia.
    rewrite He, He'; auto.
Qed.

Definition rmul := gmul 0 Rplus Rmult.

Lemma ev_map h a l : forall x f, ev h x (map (Rmult a) l) f = a * ev h x l f.
Proof. induction l; intros; simpl; [ring | rewrite IHl; ring]. Qed.

Lemma ev_shift h l : forall x y f, ev h (x * y) l f = ev h y l (fun z => f (x * z)).
Proof.
  induction l; intros; simpl; auto. rewrite Rmult_assoc, IHl. auto.
Qed.

Lemma ev_rmul h p : forall x y q f,
  ev h (x * y) (rmul p q) f = ev h x p (fun u => ev h y q (fun v => f (u * v))).
Proof.
  induction p; intros; simpl; auto.
  unfold rmul; simpl. rewrite ev_gadd, ev_map. simpl. fold rmul.
  replace (x * y * h) with (x * h * y) by ring. rewrite IHp, ev_shift. ring.
Qed.

Lemma le_mult s a b z y : 0 < s -> le s a z -> le s b y -> le (s * s) (a * b) (z * y).
Proof.
  intros Hs [] []; split. apply Rmult_le_pos; auto.
  rewrite mult_IZR. replace (a * b * (s * s)) with ((a * s) * (b * s)) by ring.
  apply Rmult_le_compat; auto; apply Rmult_le_pos; lra.
Qed.

Lemma Forall2_rmul s p z : 0 < s -> Forall2 (le s) p z -> forall q y, Forall2 (le s) q y ->
  Forall2 (le (s * s)) (rmul p q) (zmul z y).
Proof.
  intros Hs; induction 1; intros; simpl; [constructor|].
  apply Forall2_gadd.
  - clear - H H1 Hs. induction H1; simpl; constructor; auto. apply le_mult; auto.
  - constructor; [split; lra|]. apply IHForall2; auto.
Qed.

Section mul.
  Variable mul : list Z -> list Z -> list Z.
  Hypothesis mul_ok : forall p q, Forall (fun z => (0 <= z)%Z) p -> Forall (fun z => (0 <= z)%Z) q ->
    mul p q = zmul p q.

  Lemma below_mmul s h o o' M N nu nu' : 0 < s -> below s h o M nu -> below s h o' N nu' ->
    below (s * s) h (o + o') (mmul mul M N) (comp nu nu').
  Proof.
    intros Hs (l & Hl & He) (l' & Hl' & He').
    exists (rmul l l'); unfold mmul; simpl; split.
    - rewrite mul_ok by (eapply le_Znonneg; eauto). apply Forall2_rmul; auto.
    - intros f. replace (pt h (o + o') (first M + first N)) with (pt h o (first M) * pt h o' (first N)).
      2:{ unfold pt. rewrite <- exp_plus. f_equal. rewrite plus_IZR. ring. }
      rewrite ev_rmul. unfold comp. rewrite He. apply ev_ext; intros. rewrite He'. auto.
  Qed.
End mul.

Lemma cdiv_spec a b : (0 < b)%Z -> (a <= cdiv a b * b)%Z.
Proof.
  intros Hb. unfold cdiv. pose proof (Z.mul_div_le (a + (b - 1)) b Hb).
  pose proof (Z.mod_pos_bound (a + (b - 1)) b Hb). pose proof (Z.div_mod (a + (b-1)) b). lia.
Qed.

Lemma cdiv_le a b c : (0 < b)%Z -> (a <= c * b)%Z -> (cdiv a b <= c)%Z.
Proof.
  intros Hb H. unfold cdiv. apply Z.lt_succ_r. apply Z.div_lt_upper_bound; lia.
Qed.

Lemma below_mround h o S M nu : (0 < S)%Z ->
  below (IZR S * IZR S) h o M nu -> below (IZR S) h o (mround S M) nu.
Proof.
  intros HS (l & Hl & He). exists l; split; auto. unfold mround; rewrite map_e; simpl.
  assert (Hs : 0 < IZR S) by (apply IZR_lt; auto).
  clear He. induction Hl; simpl; constructor; auto.
  destruct H; split; auto.
  pose proof (IZR_le _ _ (cdiv_spec y S HS)) as Hc. rewrite mult_IZR in Hc.
  apply Rmult_le_reg_r with (IZR S); auto. lra.
Qed.

Lemma take_drop {A} (l : list A) : forall k, take l k ++ drop l k = l.
Proof. induction l; intros; simpl; auto. destruct (k <=? 0)%Z; simpl; auto. rewrite IHl; auto. Qed.

Lemma take_length {A} (l : list A) : forall k, drop l k <> [] -> Z.of_nat (length (take l k)) = Z.max 0 k.
Proof.
  induction l; intros; simpl in *; [tauto|].
  destruct (Z.leb_spec k 0); simpl; [lia|]. apply IHl in H. lia.
Qed.

Lemma below_cut s h o M nu k : below s h o M nu ->
  exists n1 n2, below s h o (under M k) n1 /\ below s h o (from M k) n2 /\ forall f, nu f = n1 f + n2 f.
Proof.
  intros (l & Hl & He).
  assert (Ht := take_drop (coef M) (k - first M)).
  assert (Hx := take_length (coef M) (k - first M)).
  rewrite <- Ht in Hl. apply Forall2_app_inv_r in Hl. destruct Hl as (l1 & l2 & H1 & H2 & ->).
  do 2 eexists. split; [|split].
  - unfold under. rewrite take_e. apply below_intro, H1.
  - apply below_intro, H2.
  - intros f. rewrite He, ev_app. f_equal.
    assert (L1 : length l1 = length (take (coef M) (k - first M))) by (apply (F2_length _ _ _ H1)).
    destruct (drop (coef M) (k - first M)) eqn:D.
    + inversion H2; subst; auto.
    + rewrite pt_far. rewrite L1, Hx by discriminate.
      replace (first M + Z.max 0 (k - first M))%Z with (Z.max (first M) k) by lia. auto.
Qed.

(* S4.2, the split *)

(* n: mass that goes to the two ends; v: its exact share up. U and D are enough. *)
Lemma split_ok s n v (U D : Z) : 0 < s -> 0 <= v <= n -> v * s <= IZR U -> n * s <= IZR (U + D) -> (0 <= D)%Z ->
  exists up, v <= up <= n /\ le s up U /\ le s (n - up) D.
Proof.
  intros Hs Hv HU HT HD. rewrite plus_IZR in HT. apply IZR_le in HD.
  assert (Hq : IZR D / s * s = IZR D) by (field; lra).
  assert (0 <= IZR D / s) by (apply Rmult_le_pos; [lra | left; apply Rinv_0_lt_compat; auto]).
  exists (Rmax v (n - IZR D / s)).
  pose proof (Rmax_l v (n - IZR D / s)). pose proof (Rmax_r v (n - IZR D / s)).
  assert (Rmax v (n - IZR D / s) <= n) by (apply Rmax_lub; lra).
  split; [lra|]. split; split; try lra.
  - unfold Rmax; destruct (Rle_dec v (n - IZR D / s)); lra.
  - assert ((n - Rmax v (n - IZR D / s)) * s <= (IZR D / s) * s) by (apply Rmult_le_compat_r; lra). lra.
Qed.

(* S4.3, coarsening *)

(* sh are shares up, in units 1/S, of the places y, y g, y g^2, ... of a cell that reaches from 1 down to G *)
Fixpoint shares_ok (S : Z) (g G y : R) (sh : list Z) : Prop :=
  match sh with
  | [] => y = G
  | u :: sh' => (0 <= u <= S)%Z /\ IZR S * (1 - y) <= IZR u * (1 - G) /\ shares_ok S g G (y * g) sh'
  end.

Lemma shares_G S g G sh : 0 < g < 1 -> forall y, 0 < y -> shares_ok S g G y sh -> 0 < G <= y.
Proof.
  intros Hg; induction sh; simpl; intros; [lra|].
  destruct H0 as (_ & _ & H0). apply IHsh in H0.
  - split; [lra|]. assert (y * g <= y * 1) by (apply Rmult_le_compat_l; lra). lra.
  - apply Rmult_lt_0_compat; lra.
Qed.

Definition rsum (l : list R) : R := fold_right Rplus 0 l.
Lemma ev_one h l : forall x, ev h x l (fun _ => 1) = rsum l.
Proof. induction l; intros; simpl; auto. rewrite IHl; ring. Qed.
Lemma rsum_le s l m : Forall2 (le s) l m -> rsum l * s <= IZR (zsum m).
Proof.
  induction 1; simpl; [lra|]. destruct H. rewrite plus_IZR. lra.
Qed.
Lemma rsum_nonneg l : nonneg l -> 0 <= rsum l.
Proof. induction 1; simpl; lra. Qed.

Lemma chord f x t G : K f -> 0 <= x -> 0 <= G -> 0 <= t <= 1 ->
  f (x * (1 - t * (1 - G))) <= (1 - t) * f x + t * f (x * G).
Proof.
  intros Kf Hx HG Ht.
  replace (x * (1 - t * (1 - G))) with ((1 - t) * x + (1 - (1 - t)) * (x * G)) by ring.
  replace ((1 - t) * f x + t * f (x * G)) with ((1 - t) * f x + (1 - (1 - t)) * f (x * G)) by ring.
  apply (K_cvx _ Kf); auto; [apply Rmult_le_pos; auto | lra].
Qed.

Lemma one_cell S s g G : (0 < S)%Z -> 0 < s -> 0 < g < 1 -> 0 < G < 1 -> forall n m, Forall2 (le s) n m ->
  forall sh y, 0 < y <= 1 -> shares_ok S g G y sh -> (length m <= length sh)%nat ->
  exists v, 0 <= v <= rsum n /\ v * s * IZR S <= IZR (dot m sh) /\
    (dot m sh <= zsum m * S)%Z /\
    forall f x, K f -> 0 <= x -> ev g (x * y) n f <= (rsum n - v) * f x + v * f (x * G).
Proof.
  intros HS Hs Hg HG. assert (HSr : 0 < IZR S) by (apply IZR_lt; auto).
  induction 1 as [|a z n m Haz Hnm IH]; intros sh y Hy Hsh Hlen.
  - exists 0. simpl. repeat split; try lra; try lia; intros. lra.
  - destruct sh as [|u sh]; [simpl in Hlen; lia|].
    pose proof (shares_G _ _ _ _ Hg y (proj1 Hy) Hsh) as HGy.
    destruct Hsh as (Hu & Hu2 & Hsh).
    destruct (IH sh (y * g)) as (v & Hv & Hv2 & Hv3 & Hv4); auto.
    { split. apply Rmult_lt_0_compat; lra.
      assert (y * g <= y * 1) by (apply Rmult_le_compat_l; lra). lra. }
    { simpl in Hlen. lia. }
    destruct Haz as [Ha Haz].
    set (t := (1 - y) / (1 - G)).
    assert (Ht : t * (1 - G) = 1 - y) by (unfold t; field; lra).
    assert (Ht1 : 0 <= t <= 1).
    { split. apply Rmult_le_pos; [lra | left; apply Rinv_0_lt_compat; lra].
      apply Rmult_le_reg_r with (1 - G); lra. }
    assert (Hz : 0 <= IZR z) by (apply Rle_trans with (a * s); auto; apply Rmult_le_pos; lra).
    assert (Htu : t * IZR S <= IZR u).
    { apply Rmult_le_reg_r with (1 - G); [lra|].
      replace (t * IZR S * (1 - G)) with (IZR S * (t * (1 - G))) by ring. rewrite Ht. lra. }
    exists (t * a + v). simpl.
    assert (0 <= t * a <= a).
    { split. apply Rmult_le_pos; lra. assert (t * a <= 1 * a) by (apply Rmult_le_compat_r; lra). lra. }
    repeat split; try lra.
    + rewrite plus_IZR, mult_IZR.
      assert ((a * s) * (t * IZR S) <= IZR z * IZR u).
      { apply Rmult_le_compat; auto; apply Rmult_le_pos; lra. }
      replace ((t * a + v) * s * IZR S) with ((a * s) * (t * IZR S) + v * s * IZR S) by ring. lra.
    + apply le_IZR in Hz. nia.
    + intros f x Kf Hx. specialize (Hv4 f x Kf Hx).
      rewrite <- Rmult_assoc in Hv4. 
      assert (Hc : f (x * y) <= (1 - t) * f x + t * f (x * G)).
      { replace y with (1 - t * (1 - G)) at 1 by lra. apply chord; auto; lra. }
      assert (a * f (x * y) <= a * ((1 - t) * f x + t * f (x * G))) by (apply Rmult_le_compat_l; auto).
      replace ((a + rsum n - (t * a + v)) * f x + (t * a + v) * f (x * G)) with
        (a * ((1 - t) * f x + t * f (x * G)) + ((rsum n - v) * f x + v * f (x * G))) by ring.
      lra.
Qed.

Lemma split_like_spec {A B} (s : list A) : forall (l : list B) b r, split_like s l = (b, r) ->
  l = b ++ r /\ (length b <= length s)%nat /\ (r <> [] -> length b = length s).
Proof.
  induction s; intros; simpl in *.
  - inversion H; subst; simpl; repeat split; auto.
  - destruct l; [inversion H; subst; simpl; repeat split; auto; try lia; tauto|].
    destruct (split_like s l) as [b' r'] eqn:E. inversion H; subst.
    destruct (IHs _ _ _ E) as (-> & Hl & Hr). simpl. split; [|split]; auto; try lia.
Qed.

Lemma shares_len S g G sh : forall y, shares_ok S g G y sh -> G = y * g ^ length sh.
Proof.
  induction sh; simpl; intros. rewrite Rmult_1_r; auto.
  destruct H as (_ & _ & H). rewrite (IHsh _ H). ring.
Qed.

Lemma cells_ok S g G sh : (0 < S)%Z -> 0 < g < 1 -> 0 < G < 1 -> shares_ok S g G 1 sh ->
  forall fuel m, (length m <= length fuel)%nat -> forall n, Forall2 (le (IZR S)) n m ->
  forall us ds, cells fuel S sh m = (us, ds) ->
  exists u d, Forall2 (le (IZR S)) u us /\ Forall2 (le (IZR S)) d ds /\
    rsum u + rsum d = rsum n /\
    forall f x, K f -> 0 <= x -> ev g x n f <= ev G x d f + ev G (x * G) u f.
Proof.
  intros HS Hg HG Hsh. assert (HSr : 0 < IZR S) by (apply IZR_lt; auto).
  assert (Hne : (1 <= length sh)%nat).
  { destruct sh; simpl in *; [lra | lia]. }
  induction fuel; intros m Hlen n Hnm us ds Hc.
  - destruct m; [|simpl in Hlen; lia]. inversion Hnm; subst. simpl in Hc. inversion Hc; subst.
    exists [], []. repeat split; try constructor; simpl; intros; lra.
  - destruct m as [|z m].
    { inversion Hnm; subst. simpl in Hc. inversion Hc; subst.
      exists [], []. repeat split; try constructor; simpl; intros; lra. }
    cbn -[split_like dot zsum] in Hc.
    destruct (split_like sh (z :: m)) as [b r] eqn:Es.
    destruct (cells fuel S sh r) as [us' ds'] eqn:Ec.
    inversion Hc; subst; clear Hc.
    destruct (split_like_spec _ _ _ _ Es) as (Hbr & Hb & Hr).
    rewrite Hbr in Hnm. apply Forall2_app_inv_r in Hnm. destruct Hnm as (n1 & n2 & H1 & H2 & ->).
    assert (Hlr : (length r <= length fuel)%nat).
    { apply (f_equal (@length Z)) in Hbr. rewrite app_length in Hbr. simpl in Hbr, Hlen.
      destruct b; simpl in *; [|lia]. destruct r; simpl in *; [lia|].
      assert (0 = length sh)%nat by (apply Hr; discriminate). lia. }
    destruct (IHfuel r Hlr n2 H2 _ _ Ec) as (u & d & Hu & Hd & Hud & Hf).
    destruct (one_cell S (IZR S) g G HS HSr Hg HG n1 b H1 sh 1) as (v & Hv & Hv2 & Hv3 & Hv4); auto; try lra.
    set (U := cdiv (dot b sh) S).
    assert (HU : (dot b sh <= U * S)%Z) by (apply cdiv_spec; auto).
    assert (HU2 : (U <= zsum b)%Z) by (apply cdiv_le; auto).
    destruct (split_ok (IZR S) (rsum n1) v U (zsum b - U)) as (up & Hup & HU3 & HD3); auto.
    { apply IZR_le in HU. rewrite mult_IZR in HU. apply Rmult_le_reg_r with (IZR S); auto. lra. }
    { replace (U + (zsum b - U))%Z with (zsum b) by lia. apply rsum_le; auto. }
    { lia. }
    exists (up :: u), (rsum n1 - up :: d).
    split; [constructor; auto|]. split; [constructor; auto|]. split.
    + simpl. unfold rsum in *. rewrite fold_right_app.
      assert (forall a l, fold_right Rplus a l = fold_right Rplus 0 l + a).
      { intros a0 l. induction l; simpl; [lra | rewrite IHl; lra]. }
      rewrite (H (fold_right Rplus 0 n2)). lra.
    + intros f x Kf Hx. rewrite ev_app. simpl.
      specialize (Hv4 f x Kf Hx). rewrite Rmult_1_r in Hv4.
      assert (Hff : f x <= f (x * G)).
      { apply (K_dec _ Kf). apply Rmult_le_pos; lra. assert (x * G <= x * 1) by (apply Rmult_le_compat_l; lra). lra. }
      assert (Hm : (rsum n1 - v) * f x + v * f (x * G) <= (rsum n1 - up) * f x + up * f (x * G)).
      { assert ((up - v) * f x <= (up - v) * f (x * G)) by (apply Rmult_le_compat_l; lra). lra. }
      assert (Hrest : ev g (x * g ^ length n1) n2 f <= ev G (x * G) d f + ev G (x * G * G) u f).
      { destruct r as [|r0 r'].
        - inversion H2; subst. simpl.
          assert (0 <= x * G) by (apply Rmult_le_pos; lra).
          apply Rplus_le_le_0_compat; apply ev_nonneg; try lra; try (eapply le_nonneg; eauto);
            try (apply (K_pos _ Kf)); auto. apply Rmult_le_pos; lra.
        - rewrite (F2_length _ _ _ H1). rewrite Hr by discriminate.
          pose proof (shares_len _ _ _ _ _ Hsh) as HGl. rewrite Rmult_1_l in HGl. rewrite <- HGl.
          apply Hf; auto. apply Rmult_le_pos; lra. }
      lra.
Qed.

Lemma below_coarsened S h o size sh M nu : (0 < S)%Z -> 0 < h -> (0 < size)%Z ->
  shares_ok S (exp (- h)) (exp (- (IZR size * h))) 1 sh ->
  below (IZR S) h o M nu ->
  exists nu', below (IZR S) (IZR size * h) o (coarsened S size sh M) nu' /\
    nu' (fun _ => 1) = nu (fun _ => 1) /\ forall f, K f -> nu f <= nu' f.
Proof.
  intros HS Hh Hsize Hsh (l & Hl & He).
  assert (Hsz : 0 < IZR size) by (apply IZR_lt; auto).
  assert (Hg : 0 < exp (- h) < 1).
  { split. apply exp_pos. rewrite <- exp_0. apply exp_increasing. lra. }
  assert (HG : 0 < exp (- (IZR size * h)) < 1).
  { split. apply exp_pos. rewrite <- exp_0. apply exp_increasing.
    assert (0 < IZR size * h) by (apply Rmult_lt_0_compat; auto). lra. }
  unfold coarsened. rewrite cells_e, zadd_e. set (low := (first M / size)%Z). set (k := (first M - low * size)%Z).
  assert (Hk : (0 <= k)%Z).
  { unfold k, low. pose proof (Z.mul_div_le (first M) size Hsize). lia. }
  set (m := zeros 0%Z k (coef M)).
  destruct (cells m S sh m) as [us ds] eqn:Ec.
  destruct (cells_ok S _ _ sh HS Hg HG Hsh m m (le_n _) (zeros 0 k l) (Forall2_zeros _ _ _ _ Hl) _ _ Ec)
    as (u & d & Hu & Hd & Hud & Hf).
  eexists. split; [|split].
  - apply below_intro. apply Forall2_gadd; [apply Hd|]. apply (Forall2_cons (R := le (IZR S)) 0 0%Z); [split; lra | apply Hu].
  - rewrite ev_gadd. simpl. rewrite !ev_one. rewrite He, ev_one.
    assert (rsum (zeros 0 k l) = rsum l).
    { rewrite <- !(ev_one (exp (-h)) _ (pt h o 0)). rewrite ev_zeros, !ev_one; auto. }
    lra.
  - intros f Kf. rewrite He, ev_gadd.
    specialize (Hf f (pt h o (low * size)) Kf (nn_pt _ _ _)).
    rewrite ev_zeros in Hf by auto. replace (low * size + k)%Z with (first M) in Hf by (unfold k; lia).
    assert (Hp : pt h o (low * size) = pt (IZR size * h) o low).
    { unfold pt. f_equal. rewrite mult_IZR. ring. }
    rewrite Hp in Hf. simpl. lra.
Qed.

(* S4.4, windows *)

(* mass below the floor *)
Lemma below_raised S h o floor M nu : 0 < h ->
  below (IZR S) h o (under M floor) nu ->
  exists nu', below (IZR S) h o (Masses floor [zsum (coef (under M floor))]) nu' /\
    nu' (fun _ => 1) = nu (fun _ => 1) /\ forall f, K f -> nu f <= nu' f.
Proof.
  intros Hh (l & Hl & He).
  exists (ev (exp (- h)) (pt h o floor) [rsum l]). split; [|split].
  - apply below_intro. constructor; constructor. apply rsum_nonneg. eapply le_nonneg; eauto.
    apply rsum_le; auto.
  - rewrite He, !ev_one. simpl. ring.
  - intros f Kf. rewrite He. simpl. rewrite Rplus_0_r.
    simpl in Hl. rewrite take_e in Hl. clear He nu.
    assert (forall m k i, Forall2 (le (IZR S)) l (take m k) -> (i + k <= floor)%Z ->
      ev (exp (- h)) (pt h o i) l f <= rsum l * f (pt h o floor)) as Hgen.
    { clear M Hl. induction l as [|a l IH]; intros m k i Hl Hi; simpl; [lra|].
      destruct m as [|z m]; simpl in Hl; [inversion Hl|].
      destruct (Z.leb_spec k 0); inversion Hl; subst.
      rewrite pt_next. assert (Hr := IH m (k - 1)%Z (i + 1)%Z H5 ltac:(lia)).
      assert (Ha : 0 <= a) by apply H3.
      assert (f (pt h o i) <= f (pt h o floor)).
      { apply (K_dec _ Kf); auto. unfold pt.
        destruct (Req_dec (IZR floor) (IZR i)) as [->|Hn]; [lra|].
        left. apply exp_increasing. apply Ropp_lt_contravar, Rplus_lt_compat_l, Rmult_lt_compat_r; auto.
        assert (IZR i <= IZR floor) by (apply IZR_le; lia). lra. }
      assert (a * f (pt h o i) <= a * f (pt h o floor)) by (apply Rmult_le_compat_l; auto). lra. }
    eapply Hgen; eauto. lia.
Qed.

Lemma kept_acc S E l : forall V acc, kept S E V l acc = (kept S E V l 0 + acc)%Z.
Proof. induction l; intros; simpl; [lia|]. rewrite IHl, (IHl _ (_ * _)%Z). lia. Qed.

Lemma kept_ok S E h : (0 < S)%Z -> 0 < h <= 1 -> (0 <= E)%Z -> IZR E <= IZR S * h ->
  forall n m s, 0 < s -> Forall2 (le s) n m -> forall V y, (0 <= V)%Z -> 0 < y <= 1 -> IZR V <= IZR S * y ->
  exists v, 0 <= v <= rsum n /\ (rsum n - v) * s <= IZR (zsum m) - v * s /\
    v * s * IZR S <= IZR (zsum m) * IZR S - IZR (kept S E V m 0) /\
    (0 <= kept S E V m 0)%Z /\
    forall f x, K f -> 0 <= x -> ev h (x * y * h) n f <= (rsum n - v) * f x + v * f 0.
Proof.
  intros HS Hh HE HEh n m s Hs. assert (HSr : 0 < IZR S) by (apply IZR_lt; auto).
  induction 1 as [|a z n m Haz Hnm IH]; intros V y HV Hy HVy.
  - exists 0. simpl. repeat split; try lra; try lia. intros; lra.
  - cbn [kept]. set (V' := (V * E / S)%Z). rewrite kept_acc.
    assert (HV0 : (0 <= V')%Z) by (apply Z.div_pos; nia).
    assert (HV'S : (V' * S <= V * E)%Z) by (unfold V'; rewrite Z.mul_comm; apply Z.mul_div_le; auto).
    assert (HVE : IZR V' <= IZR S * (y * h)).
    { apply IZR_le in HV'S. rewrite !mult_IZR in HV'S.
      apply IZR_le in HV, HE. 
      assert (IZR V * IZR E <= (IZR S * y) * (IZR S * h)) by (apply Rmult_le_compat; lra).
      apply Rmult_le_reg_r with (IZR S); auto. lra. }
    assert (Hyh : 0 < y * h <= 1).
    { split. apply Rmult_lt_0_compat; lra. assert (y * h <= 1 * 1) by (apply Rmult_le_compat; lra). lra. }
    destruct (IH V' (y * h) HV0 Hyh HVE) as (v & Hv & Hv1 & Hv2 & Hv3 & Hv4).
    destruct Haz as [Ha Haz].
    assert (Hz : (0 <= z)%Z).
    { apply le_IZR. apply Rle_trans with (a * s); auto; apply Rmult_le_pos; lra. }
    set (t := 1 - y * h).
    assert (Ht : 0 <= t <= 1) by (unfold t; lra).
    assert (Hta : 0 <= t * a <= a).
    { split. apply Rmult_le_pos; lra. assert (t * a <= 1 * a) by (apply Rmult_le_compat_r; lra). lra. }
    exists (t * a + v). simpl. repeat split; try lra.
    + rewrite plus_IZR. assert (0 <= IZR (zsum m) - rsum n * s) by lra.
      replace ((a + rsum n - (t * a + v)) * s) with (a * s + (rsum n - v) * s - t * a * s) by ring. lra.
    + rewrite !plus_IZR, !mult_IZR. rewrite Rmult_0_l || idtac.
      assert (t * (a * s) <= t * IZR z) by (apply Rmult_le_compat_l; lra).
      assert (t * (a * s) * IZR S <= t * IZR z * IZR S) by (apply Rmult_le_compat_r; lra).
      apply IZR_le in Hz.
      assert (IZR z * IZR V' <= IZR z * (IZR S * (y * h))) by (apply Rmult_le_compat_l; auto).
      replace (IZR z * (IZR S * (y * h))) with (IZR z * IZR S - t * IZR z * IZR S) in H1 by (unfold t; ring).
      replace ((t * a + v) * s * IZR S) with (t * (a * s) * IZR S + v * s * IZR S) by ring. lra.
    + nia.
    + intros f x Kf Hx. specialize (Hv4 f x Kf Hx).
      replace (x * (y * h) * h) with (x * y * h * h) in Hv4 by ring.
      assert (Hc : f (x * y * h) <= (1 - t) * f x + t * f 0).
      { replace (x * y * h) with (x * (1 - t * (1 - 0))) by (unfold t; ring).
        replace (f 0) with (f (x * 0)) by (f_equal; ring). apply chord; auto; lra. }
      assert (a * f (x * y * h) <= a * ((1 - t) * f x + t * f 0)) by (apply Rmult_le_compat_l; auto).
      replace ((a + rsum n - (t * a + v)) * f x + (t * a + v) * f 0) with
        (a * ((1 - t) * f x + t * f 0) + ((rsum n - v) * f x + v * f 0)) by ring.
      lra.
Qed.

Lemma below_windowed S E h o floor top M nu c esc : (0 < S)%Z -> 0 < h -> (0 <= E)%Z ->
  IZR E <= IZR S * exp (- h) -> below (IZR S) h o M nu -> windowed S E floor top M = (c, esc) ->
  exists nu' z, below (IZR S) h o c nu' /\ le (IZR S) z esc /\
    nu' (fun _ => 1) + z = nu (fun _ => 1) /\ forall f, K f -> nu f <= nu' f + z * f 0.
Proof.
  intros HS Hh HE HEh Hb Hw. assert (HSr : 0 < IZR S) by (apply IZR_lt; auto).
  unfold windowed in Hw. rewrite zsum_e in Hw.
  destruct (below_cut _ _ _ _ _ floor Hb) as (nl & nr & Hl & Hr & Ecut).
  destruct (below_cut _ _ _ _ _ (top + 1)%Z Hr) as (ni & nh & Hi & Hhi & Ecut2).
  destruct (below_raised _ _ _ _ _ _ Hh Hl) as (nl' & Hl' & Tl & Al).
  set (high := from (from M floor) (top + 1)) in *.
  destruct Hhi as (lh & Hlh & Ehi).
  set (gap := (first high - (top + 1))%Z) in *.
  assert (Hgap : (0 <= gap)%Z) by (unfold gap, high, from; simpl; lia).
  pose proof (Forall2_zeros _ gap _ _ Hlh) as Hlz.
  assert (Hexp : 0 < exp (- h) <= 1).
  { split. apply exp_pos. left. rewrite <- exp_0. apply exp_increasing. lra. }
  destruct (kept_ok S E (exp (- h)) HS Hexp HE HEh _ _ (IZR S) HSr Hlz S 1) as (v & Hv & Hv1 & Hv2 & Hv3 & Hv4); try lra; try lia.
  set (lz := zeros 0%Z gap (coef high)) in *.
  set (kp := kept S E S lz 0) in *.
  assert (Hk0 : (0 <= kp / S)%Z) by (apply Z.div_pos; lia).
  assert (HkS : (kp / S * S <= kp)%Z) by (rewrite Z.mul_comm; apply Z.mul_div_le; auto).
  set (nn := zeros 0 gap lh) in *.
  destruct (split_ok (IZR S) (rsum nn) v (zsum lz - kp / S) (kp / S)) as (up & Hup & HU & HD); auto.
  { apply IZR_le in HkS. rewrite mult_IZR in HkS. rewrite minus_IZR.
    apply Rmult_le_reg_r with (IZR S); auto. lra. }
  { replace (zsum lz - kp / S + kp / S)%Z with (zsum lz) by lia. apply rsum_le; auto. }
  inversion Hw; subst c esc; clear Hw.
  pose proof (below_intro (IZR S) h o top [rsum nn - up] [(kp / S)%Z]) as Ht.
  assert (Ht' := Ht ltac:(constructor; [auto | constructor])). clear Ht.
  do 2 eexists. split; [|split; [|split]].
  - apply below_madd; [apply below_madd; [apply Hi | apply Hl'] | apply Ht'].
  - apply HU.
  - rewrite Ecut, Ecut2, Tl. rewrite Ehi, !ev_one. simpl.
    assert (rsum nn = rsum lh).
    { unfold nn. rewrite <- !(ev_one (exp (-h)) _ (pt h o 0)). rewrite ev_zeros, !ev_one; auto. }
    lra.
  - intros f Kf. rewrite Ecut, Ecut2. specialize (Al f Kf).
    specialize (Hv4 f (pt h o top) Kf (nn_pt _ _ _)). rewrite Rmult_1_r, pt_next in Hv4.
    unfold nn in Hv4 at 1. rewrite ev_zeros in Hv4 by auto.
    replace (top + 1 + gap)%Z with (first high) in Hv4 by (unfold gap; lia).
    rewrite <- Ehi in Hv4.
    assert (f (pt h o top) <= f 0) by (apply (K_dec _ Kf); auto; lra).
    assert ((up - v) * f (pt h o top) <= (up - v) * f 0) by (apply Rmult_le_compat_l; lra).
    simpl. lra.
Qed.
