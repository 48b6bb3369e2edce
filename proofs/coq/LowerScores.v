(* L1, L2, L4: a list of scores says less than the step does; each integer operation lets it say less still. *)
Require Import Reals ZArith List Lra Lia.
Require Import Evr.Order Evr.Integers Evr.Masses Evr.GridLaw Evr.Product Evr.Powers Evr.LowerIntegers.
Import ListNotations.
Open Scope R_scope.

(* What outcomes of chance p under P and q under Q add to the integral of f(dQ/dP), at least. *)
Definition persp (f : R -> R) (p q : R) : R := p * f (q / p).

Lemma persp_0 f q : persp f 0 q = 0.
Proof. unfold persp. ring. Qed.
Lemma ratio_nonneg p q : 0 < p -> 0 <= q -> 0 <= q / p.
Proof. intros. apply Rmult_le_pos; [auto | left; apply Rinv_0_lt_compat; auto]. Qed.
Lemma persp_pos f p q : K f -> 0 <= p -> 0 <= q -> 0 <= persp f p q.
Proof.
  intros Kf [Hp|<-] Hq; [|rewrite persp_0; lra].
  apply Rmult_le_pos; [lra|]. apply (K_pos _ Kf), ratio_nonneg; auto.
Qed.
(* L2 (iv) *)
Lemma persp_mono f p p' q q' : K f -> 0 <= p <= p' -> 0 <= q' <= q -> persp f p q <= persp f p' q'.
Proof.
  intros Kf [[Hp|<-] Hpp] [Hq Hqq]; [|rewrite persp_0; apply persp_pos; auto].
  assert (Hr : q' / p' <= q / p).
  { apply Rmult_le_reg_r with (p * p'). apply Rmult_lt_0_compat; lra.
    replace (q' / p' * (p * p')) with (q' * p) by (field; lra). replace (q / p * (p * p')) with (q * p') by (field; lra).
    apply Rmult_le_compat; lra. }
  assert (H0 : 0 <= q' / p') by (apply ratio_nonneg; lra).
  unfold persp. apply Rmult_le_compat; try lra.
  - apply (K_pos _ Kf). lra.
  - apply (K_dec _ Kf); auto.
Qed.
(* L2 (ii) *)
Lemma persp_merge f p p' q q' : K f -> 0 <= p -> 0 <= p' -> 0 <= q -> 0 <= q' ->
  persp f (p + p') (q + q') <= persp f p q + persp f p' q'.
Proof.
  intros Kf Hp Hp' Hq Hq'. destruct Hp as [Hp|<-].
  2:{ rewrite persp_0, !Rplus_0_l. apply persp_mono; auto; lra. }
  destruct Hp' as [Hp'|<-].
  2:{ rewrite persp_0, !Rplus_0_r. apply persp_mono; auto; lra. }
  unfold persp. set (t := p / (p + p')).
  assert (Ht : t * (p + p') = p) by (unfold t; field; lra).
  assert (Ht1 : 0 <= t <= 1) by (split; [unfold t; apply ratio_nonneg; lra | apply Rmult_le_reg_r with (p + p'); lra]).
  pose proof (K_cvx _ Kf (q / p) (q' / p') t (ratio_nonneg p q Hp Hq) (ratio_nonneg p' q' Hp' Hq') Ht1) as C.
  replace (t * (q / p) + (1 - t) * (q' / p')) with ((q + q') / (p + p')) in C by (unfold t; field; lra).
  apply (Rmult_le_compat_l (p + p')) in C; [|lra]. eapply Rle_trans; [apply C|]. right.
  replace (1 - t) with (p' / (p + p')) by (unfold t; field; lra). unfold t. field. lra.
Qed.
Lemma persp_scal f c p q : 0 < c -> persp f (c * p) (c * q) = c * persp f p q.
Proof.
  intros Hc. destruct (Req_dec p 0) as [->|Hp]; [rewrite Rmult_0_r, !persp_0; ring|].
  unfold persp. replace (c * q / (c * p)) with (q / p) by (field; lra). ring.
Qed.

(* a line below f, through its value at m *)
Lemma between_three f x m z : K f -> 0 <= x -> x < m < z -> (z - x) * f m <= (z - m) * f x + (m - x) * f z.
Proof.
  intros Kf Hx Hm. set (t := (z - m) / (z - x)). assert (Et : t * (z - x) = z - m) by (unfold t; field; lra).
  assert (Ht : 0 <= t <= 1).
  { split; [unfold t; apply ratio_nonneg; lra | apply Rmult_le_reg_r with (z - x); lra]. }
  pose proof (K_cvx _ Kf x z t Hx ltac:(lra) Ht) as C. replace (t * x + (1 - t) * z) with m in C.
  2:{ replace (t * x + (1 - t) * z) with (z - t * (z - x)) by ring. rewrite Et. ring. }
  apply (Rmult_le_compat_l (z - x)) in C; [|lra]. replace (m - x) with ((z - x) - t * (z - x)) by lra. rewrite <- Et. lra.
Qed.
Lemma supporting f m : K f -> 0 < m -> exists k, 0 <= k /\ forall x, 0 <= x -> f m + k * m <= f x + k * x.
Proof.
  intros Kf Hm. set (E := fun r => exists z, m < z /\ r * (z - m) = f m - f z).
  assert (B : forall x, 0 <= x < m -> forall r, E r -> r * (m - x) <= f x - f m).
  { intros x Hx r (z & Hz & Er). pose proof (between_three f x m z Kf ltac:(lra) ltac:(lra)) as C.
    apply Rmult_le_reg_r with (z - m); [lra|]. replace (r * (m - x) * (z - m)) with ((m - x) * (f m - f z)) by (rewrite <- Er; ring). lra. }
  assert (E1 : E (f m - f (m + 1))) by (exists (m + 1); split; [lra | ring]).
  destruct (completeness E) as [k [K1 K2]].
  - exists ((f 0 - f m) / m). intros r Hr. specialize (B 0 ltac:(lra) r Hr). rewrite Rminus_0_r in B.
    apply Rmult_le_reg_r with m; auto. unfold Rdiv. rewrite Rmult_assoc, Rinv_l; lra.
  - exists (f m - f (m + 1)). auto.
  - exists k. specialize (K1 _ E1) as K0. pose proof (K_dec _ Kf m (m + 1) ltac:(lra) ltac:(lra)). split; [lra|]. intros x Hx.
    destruct (Rtotal_order x m) as [Hl|[->|Hg]]; [|lra|].
    + enough (k <= (f x - f m) / (m - x)) as Hk.
      { apply (Rmult_le_compat_r (m - x)) in Hk; [|lra]. unfold Rdiv in Hk. rewrite Rmult_assoc, Rinv_l in Hk; lra. }
      apply K2. intros r Hr. specialize (B x ltac:(lra) r Hr). apply Rmult_le_reg_r with (m - x); [lra|].
      unfold Rdiv. rewrite Rmult_assoc, Rinv_l; lra.
    + assert (Hr : E ((f m - f x) / (x - m))) by (exists x; split; [lra | field; lra]).
      specialize (K1 _ Hr). apply (Rmult_le_compat_r (x - m)) in K1; [|lra]. unfold Rdiv in K1. rewrite Rmult_assoc, Rinv_l in K1; lra.
Qed.

(* Scores at x, x h, x h^2, ... (x = e^(-loss)), in the units of the integers. *)
Fixpoint val (h x : R) (l : list (Z * Z)) (f : R -> R) : R :=
  match l with [] => 0 | a :: l' => persp f (IZR (fst a)) (x * IZR (snd a)) + val h (x * h) l' f end.
Definition pnn (a : Z * Z) : Prop := (0 <= fst a /\ 0 <= snd a)%Z.
Definition nn (l : list (Z * Z)) := Forall pnn l.

Lemma pnn_R a : pnn a -> 0 <= IZR (fst a) /\ 0 <= IZR (snd a).
Proof. intros [A B]. split; apply IZR_le; auto. Qed.

Section val.
  Variable h : R.
  Hypothesis Hh : 0 <= h.

  Lemma val_pos l : nn l -> forall x f, 0 <= x -> K f -> 0 <= val h x l f.
  Proof.
    induction 1 as [|a l [A B]%pnn_R _ IH]; intros x f Hx Kf; simpl; [lra|].
    apply Rplus_le_le_0_compat; [apply persp_pos; auto; apply Rmult_le_pos; auto | apply IH; auto; apply Rmult_le_pos; auto].
  Qed.
  Lemma val_fm l : nn l -> forall x, 0 <= x -> fm (val h x l).
  Proof.
    induction 1 as [|a l [A B]%pnn_R _ IH]; intros x Hx; simpl.
    - constructor; intros; try lra. apply K_const; lra.
    - assert (Hxh : 0 <= x * h) by (apply Rmult_le_pos; auto). destruct (IH _ Hxh) as [m p c k].
      assert (HB : 0 <= x * IZR (snd a)) by (apply Rmult_le_pos; auto).
      constructor; intros.
      + apply Rplus_le_compat; auto. destruct A as [A|<-]; [|rewrite !persp_0; lra].
        apply Rmult_le_compat_l; [lra|]. apply H, ratio_nonneg; auto.
      + rewrite p. unfold persp. ring.
      + rewrite c. unfold persp. ring.
      + apply (K_plus (fun t => persp (fun y => f (t * y)) (IZR (fst a)) (x * IZR (snd a)))); auto.
        unfold persp. destruct A as [A|<-].
        * apply (K_scal (IZR (fst a)) (fun t => f (t * _))); [lra|]. apply K_inner'; auto. apply ratio_nonneg; auto.
        * constructor; intros; lra.
  Qed.
  Lemma val_app l : forall x m f, val h x (l ++ m) f = val h x l f + val h (x * h ^ length l) m f.
  Proof.
    induction l; intros; simpl; [rewrite Rmult_1_r; ring|]. rewrite IHl.
    replace (x * (h * h ^ length l)) with (x * h * h ^ length l) by ring. ring.
  Qed.
  Lemma val_gadd l : nn l -> forall m x f, nn m -> 0 <= x -> K f ->
    val h x (gadd padd l m) f <= val h x l f + val h x m f.
  Proof.
    induction 1 as [|a l Ha _ IH]; intros [|b m] x f Hm Hx Kf; simpl; try lra.
    inversion Hm as [|? ? Hb Hm']; subst. apply pnn_R in Ha as [A B], Hb as [A' B'].
    assert (Hxh : 0 <= x * h) by (apply Rmult_le_pos; auto). specialize (IH m _ f Hm' Hxh Kf).
    rewrite !plus_IZR, Rmult_plus_distr_l.
    pose proof (persp_merge f _ _ (x * IZR (snd a)) (x * IZR (snd b)) Kf A A' ltac:(apply Rmult_le_pos; auto) ltac:(apply Rmult_le_pos; auto)). lra.
  Qed.

  (* L2 (i) *)
  Definition ptimes (a b : Z * Z) : Z * Z := (fst a * fst b, snd a * snd b)%Z.
  Definition gprod := gmul (0, 0)%Z padd ptimes.
  Lemma nn_gadd l : nn l -> forall m, nn m -> nn (gadd padd l m).
  Proof.
    induction 1 as [|a l Ha Hl IH]; intros m Hm; simpl; auto. inversion Hm as [|b m' Hb Hm']; subst; constructor; auto.
    - destruct Ha, Hb. split; simpl; lia.
    - apply IH; auto.
  Qed.
  Lemma nn_map_times a l : pnn a -> nn l -> nn (map (ptimes a) l).
  Proof.
    intros [A B]. induction 1 as [|b l Hb _ IH]; simpl; constructor; auto. destruct Hb. split; apply Z.mul_nonneg_nonneg; auto.
  Qed.
  Lemma nn_gprod l : nn l -> forall m, nn m -> nn (gprod l m).
  Proof.
    induction 1 as [|a l Ha _ IH]; intros m Hm; simpl; [constructor|].
    apply nn_gadd; [apply nn_map_times; auto|]. constructor; [split; simpl; lia | apply IH; auto].
  Qed.
  Lemma val_map a : pnn a -> forall l x y f, nn l ->
    val h (x * y) (map (ptimes a) l) f = persp (fun u => val h y l (fun v => f (u * v))) (IZR (fst a)) (x * IZR (snd a)).
  Proof.
    intros [A B]%pnn_R l x y f Hl. unfold persp at 1. revert y. destruct A as [A|E].
    - induction Hl as [|b l Hb _ IH]; intros y; simpl; [ring|].
      rewrite (Rmult_assoc x y h), IH, !mult_IZR. apply pnn_R in Hb as [A' B']. unfold persp. destruct A' as [A'|<-]; [|ring].
      replace (x * y * (IZR (snd a) * IZR (snd b)) / (IZR (fst a) * IZR (fst b)))
        with (x * IZR (snd a) / IZR (fst a) * (y * IZR (snd b) / IZR (fst b))) by (field; lra). ring.
    - induction Hl as [|b l Hb _ IH]; intros y; simpl; [lra|].
      rewrite (Rmult_assoc x y h), IH, !mult_IZR, <- E, Rmult_0_l, persp_0. ring.
  Qed.
  Lemma val_gprod l : nn l -> forall m x y f, nn m -> 0 <= x -> 0 <= y -> K f ->
    val h (x * y) (gprod l m) f <= comp (val h x l) (val h y m) f.
  Proof.
    unfold comp. induction 1 as [|a l Ha Hl IH]; intros m x y f Hm Hx Hy Kf; simpl; [lra|].
    eapply Rle_trans.
    - apply val_gadd; auto; [apply nn_map_times; auto | | apply Rmult_le_pos; auto].
      constructor; [split; simpl; lia | apply nn_gprod; auto].
    - simpl. rewrite val_map by auto. rewrite persp_0, Rplus_0_l. apply Rplus_le_compat_l.
      replace (x * y * h) with (x * h * y) by ring. apply IH; auto. apply Rmult_le_pos; auto.
  Qed.
End val.

(* ---------- the loops of LowerIntegers.v ---------- *)

Lemma gadd_e {A} (plus : A -> A -> A) p q : gadd_a plus p q [] = gadd plus p q.
Proof.
  enough (H : forall p q acc, gadd_a plus p q acc = rev_append acc (gadd plus p q)) by apply H.
  clear. induction p; intros; simpl; try reflexivity. destruct q; try reflexivity. apply IHp.
Qed.
Lemma ps_e l : ps l = map fst l. Proof. unfold ps. rewrite map_e. reflexivity. Qed.
Lemma qs_e l : qs l = map snd l. Proof. unfold qs. rewrite map_e. reflexivity. Qed.
Lemma zip_e l : zip (map fst l) (map snd l) = l.
Proof.
  unfold zip. enough (H : forall l acc, zip_a (map fst l) (map snd l) acc = rev_append acc l) by apply H.
  clear. induction l as [|[a b] l IH]; intros; simpl; try reflexivity. rewrite IH. reflexivity.
Qed.
Lemma gadd_fst l : forall m, map fst (gadd padd l m) = zadd (map fst l) (map fst m).
Proof. induction l; intros [|b m]; simpl; try reflexivity. rewrite IHl. reflexivity. Qed.
Lemma gadd_snd l : forall m, map snd (gadd padd l m) = zadd (map snd l) (map snd m).
Proof. induction l; intros [|b m]; simpl; try reflexivity. rewrite IHl. reflexivity. Qed.
Lemma gprod_fst l m : map fst (gprod l m) = zmul (map fst l) (map fst m).
Proof.
  induction l as [|a l IH]; [reflexivity|].
  change (gprod (a :: l) m) with (gadd padd (map (ptimes a) m) ((0, 0)%Z :: gprod l m)). rewrite gadd_fst, map_map. simpl. rewrite IH.
  unfold zmul at 2. simpl. rewrite map_map. reflexivity.
Qed.
Lemma gprod_snd l m : map snd (gprod l m) = zmul (map snd l) (map snd m).
Proof.
  induction l as [|a l IH]; [reflexivity|].
  change (gprod (a :: l) m) with (gadd padd (map (ptimes a) m) ((0, 0)%Z :: gprod l m)). rewrite gadd_snd, map_map. simpl. rewrite IH.
  unfold zmul at 2. simpl. rewrite map_map. reflexivity.
Qed.
Lemma nn_fst l : nn l -> nnZ (map fst l). Proof. induction 1 as [|a l [A B] _ IH]; simpl; constructor; auto. Qed.
Lemma nn_snd l : nn l -> nnZ (map snd l). Proof. induction 1 as [|a l [A B] _ IH]; simpl; constructor; auto. Qed.
Lemma pmul_e l m : nn l -> nn m -> pmul l m = gprod l m.
Proof.
  intros Hl Hm. unfold pmul. rewrite !ps_e, !qs_e, !kmul_ok by auto using nn_fst, nn_snd.
  rewrite <- gprod_fst, <- gprod_snd. apply zip_e.
Qed.

(* ---------- lists at their places ---------- *)

Definition at_grid (h o : R) (M : chances) (f : R -> R) : R := val (exp (- h)) (pt h o (c_first M)) (c_list M) f.
Definition cnn (M : chances) := nn (c_list M).

Lemma at_fm h o M : cnn M -> fm (at_grid h o M).
Proof. intros H. apply (val_fm (exp (- h))); auto. Qed.
Lemma at_pos h o M f : cnn M -> K f -> 0 <= at_grid h o M f.
Proof. intros. apply val_pos; auto. Qed.

Lemma val_zeros h o k : (0 <= k)%Z -> forall i l f,
  val (exp (- h)) (pt h o i) (zeros (0, 0)%Z k l) f = val (exp (- h)) (pt h o (i + k)) l f.
Proof.
  intros Hk; destruct k as [|p|p]; try lia; clear Hk.
  - intros; simpl zeros; rewrite Z.add_0_r; auto.
  - induction p using Pos.peano_ind; intros.
    + simpl. rewrite pt_next, persp_0. ring.
    + rewrite zeros_succ. cbn [val fst snd]. rewrite pt_next, IHp, persp_0. replace (i + 1 + Z.pos p)%Z with (i + Z.pos (Pos.succ p))%Z by lia. ring.
Qed.
Lemma nn_zeros k l : nn l -> nn (zeros (0, 0)%Z k l).
Proof.
  intros H; destruct k as [|p|p]; auto. induction p using Pos.peano_ind.
  - simpl. constructor; auto. split; simpl; lia.
  - rewrite zeros_succ. constructor; auto. split; simpl; lia.
Qed.

Lemma cadd_ok h o M N : cnn M -> cnn N -> cnn (cadd M N) /\
  forall f, K f -> at_grid h o (cadd M N) f <= at_grid h o M f + at_grid h o N f.
Proof.
  intros HM HN. unfold cadd. destruct (c_list M) eqn:EM.
  { split; auto. intros f Kf. pose proof (at_pos h o M f HM Kf). lra. }
  destruct (c_list N) eqn:EN.
  { split; auto. intros f Kf. pose proof (at_pos h o N f HN Kf). lra. }
  rewrite <- EM, <- EN, gadd_e. set (low := Z.min (c_first M) (c_first N)). split.
  - apply nn_gadd; apply nn_zeros; auto.
  - intros f Kf. unfold at_grid at 1. simpl. eapply Rle_trans; [apply val_gadd; auto; apply nn_zeros; auto|].
    rewrite !val_zeros by lia.
    replace (low + (c_first M - low))%Z with (c_first M) by lia. replace (low + (c_first N - low))%Z with (c_first N) by lia.
    unfold at_grid. lra.
Qed.

Lemma cmul_ok h o o' M N : cnn M -> cnn N -> cnn (cmul M N) /\
  forall f, K f -> at_grid h (o + o') (cmul M N) f <= comp (at_grid h o M) (at_grid h o' N) f.
Proof.
  intros HM HN. unfold cmul, cnn, at_grid. simpl. rewrite pmul_e by auto. split; [apply nn_gprod; auto|].
  intros f Kf. replace (pt h (o + o') (c_first M + c_first N)) with (pt h o (c_first M) * pt h o' (c_first N)).
  - apply val_gprod; auto.
  - unfold pt. rewrite <- exp_plus. f_equal. rewrite plus_IZR. ring.
Qed.

Lemma div_pos_le p S : (0 < S)%Z -> (0 <= p)%Z -> 0 <= IZR (p / S) /\ IZR S * IZR (p / S) <= IZR p.
Proof.
  intros HS Hp. split; [apply IZR_le, Z.div_pos; auto|]. rewrite Rmult_comm. apply div_le; auto.
Qed.
Lemma cdiv_pos_le q S : (0 < S)%Z -> (0 <= q)%Z -> (0 <= cdiv q S)%Z /\ IZR q <= IZR S * IZR (cdiv q S).
Proof.
  intros HS Hq. split; [unfold cdiv; apply Z.div_pos; lia|]. rewrite Rmult_comm. apply le_cdiv; auto.
Qed.
Lemma cround_ok h o S M : (0 < S)%Z -> cnn M -> cnn (cround S M) /\
  forall f, K f -> IZR S * at_grid h o (cround S M) f <= at_grid h o M f.
Proof.
  intros HS HM. assert (HSr : 0 < IZR S) by (apply IZR_lt; auto). unfold cround, cnn, at_grid. rewrite map_e. simpl. split.
  - induction HM as [|a l [A B] _ IH]; simpl; constructor; auto. split; simpl; [apply Z.div_pos; auto | apply cdiv_pos_le; auto].
  - intros f Kf. generalize (nn_pt h o (c_first M)). generalize (pt h o (c_first M)).
    induction HM as [|a l [A B] _ IH]; intros x Hx; simpl; [lra|]. rewrite Rmult_plus_distr_l. apply Rplus_le_compat.
    + destruct (div_pos_le _ S HS A) as [P0 P1]. destruct (cdiv_pos_le _ S HS B) as [Q0 Q1].
      rewrite <- persp_scal by auto. apply persp_mono; auto.
      * split; auto. apply Rmult_le_pos; lra.
      * split; [apply Rmult_le_pos; auto; apply IZR_le; auto|].
        replace (IZR S * (x * IZR (cdiv (snd a) S))) with (x * (IZR S * IZR (cdiv (snd a) S))) by ring. apply Rmult_le_compat_l; auto.
    + apply IH. apply Rmult_le_pos; auto.
Qed.

Lemma nn_app l m : nn (l ++ m) <-> nn l /\ nn m.
Proof. apply Forall_app. Qed.
(* L2 (iii) *)
Lemma cut_ok h o M k : cnn M -> cnn (cunder M k) /\ cnn (cfrom M k) /\
  forall f, at_grid h o M f = at_grid h o (cunder M k) f + at_grid h o (cfrom M k) f.
Proof.
  unfold cnn, cunder, cfrom, at_grid. rewrite take_e. simpl. intros HM.
  pose proof (take_drop (c_list M) (k - c_first M)) as Ht. pose proof (take_length (c_list M) (k - c_first M)) as Hx.
  rewrite <- Ht in HM. apply nn_app in HM as [H1 H2]. split; auto. split; auto. intros f.
  rewrite <- Ht at 1. rewrite val_app. f_equal. destruct (drop (c_list M) (k - c_first M)) eqn:D; auto.
  rewrite pt_far, Hx by discriminate. replace (c_first M + Z.max 0 (k - c_first M))%Z with (Z.max (c_first M) k) by lia. auto.
Qed.
