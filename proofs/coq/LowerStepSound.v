(* What is computed of one step of a refutation says nothing untrue. *)
Require Import Reals ZArith List Lra Lia Bool.
Require Import Evr.Order Evr.Integers Evr.Masses Evr.GridLaw Evr.Powers Evr.Composer Evr.Step Evr.StepSound Evr.Training Evr.Laws Evr.Enclose Evr.Normal Evr.EncloseSound Evr.OwnSound.
Require Import Evr.LowerIntegers Evr.LowerScores Evr.LowerGrid Evr.LowerStep.
Import ListNotations.
Open Scope R_scope.

(* Chances at places, where a place stands for the likelihood ratio X. *)
Fixpoint at_places (X : Z -> R) (ps : list Z) (l : list (Z * Z)) (f : R -> R) : R :=
  match ps, l with
  | p :: ps', a :: l' => persp f (IZR (fst a)) (X p * IZR (snd a)) + at_places X ps' l' f
  | _, _ => 0
  end.

Lemma split_arith {A} (s : list A) (l : list (Z * Z)) p d : split_like (arith p d s) l = split_like s l.
Proof. revert l p. induction s; intros [|a' l] p; simpl; auto. rewrite IHs. reflexivity. Qed.
Lemma at_places_app X f : forall ps qs l b r, split_like ps l = (b, r) ->
  at_places X (ps ++ qs) l f = at_places X ps b f + at_places X qs r f.
Proof.
  induction ps as [|p ps IH]; intros qs [|a l] b r E; simpl in E |- *; try (injection E as <- <-; simpl; try lra; destruct qs; simpl; lra).
  destruct (split_like ps l) as [b' r'] eqn:E'. injection E as <- <-. rewrite (IH qs l b' r' E'). simpl. lra.
Qed.
Lemma at_places_grid {A} (s : list A) X h o d f : (forall i, X (i * d)%Z = pt h o i) -> forall i l, (length l <= length s)%nat ->
  at_places X (arith (i * d) d s) l f = val (exp (- h)) (pt h o i) l f.
Proof.
  intros HX. induction s; intros i [|b l] Hl; simpl in *; try lia; try lra.
  rewrite HX, pt_next. replace (i * d + d)%Z with ((i + 1) * d)%Z by ring. rewrite IHs by lia. reflexivity.
Qed.

Theorem score_of_ok S den spacing k infinite values X mu : law mu -> (0 < S)%Z -> (0 < den)%Z ->
  score_of S k infinite values = Some X ->
  (forall f, K f -> at_places (xp (IZR (g_off (k_grid k)) / IZR den) (IZR spacing / IZR (den * size (k_grid k)))) (places (k_grid k)) values f
    + IZR infinite * f 0 <= IZR (2 ^ k_vbits k) * mu f) ->
  says S (IZR spacing / IZR den) (IZR (g_off (k_grid k)) / IZR den) X mu.
Proof.
  intros L HS Hd E Hv. unfold score_of in E. rewrite places_e, map_e, split_e in E. set (g := k_grid k) in *. set (V := (2 ^ k_vbits k)%Z) in *.
  destruct (Z.leb_spec 0 (g_halv g)) as [Hh|]; [|discriminate]. destruct (Z.leb_spec 0 (k_vbits k)) as [Hvb|]; [|discriminate].
  destruct (rising (places g)); [|discriminate]. destruct (Z.leb_spec 0 infinite) as [Hi|]; [|discriminate].
  destruct (forallb _ values) eqn:Hnn; [|discriminate]. cbn [andb] in E. set (l := map _ values) in *.
  destruct (split_like (run_of (g_low g)) l) as [l1 r1] eqn:E1. destruct (split_like (run_of (g_fine g)) r1) as [l2 r2] eqn:E2.
  destruct (split_like (run_of (g_high g)) r2) as [l3 r3] eqn:E3.
  assert (E' : Score (g_halv g) (Chances (g_ffirst g) l2) (cadd (Chances (g_floor g) l1) (Chances (g_hfirst g) l3)) (Z.min S (infinite * S / V)) = X)
    by (destruct (places g); [discriminate | congruence]). clear E. subst X.
  assert (HV : (0 < V)%Z) by (apply Z.pow_pos_nonneg; lia). assert (Hsz : (0 < size g)%Z) by (apply Z.pow_pos_nonneg; lia).
  assert (HVr : 0 < IZR V) by (apply IZR_lt; auto). assert (HSr : 0 < IZR S) by (apply IZR_lt; auto).
  assert (Hdr : 0 < IZR den) by (apply IZR_lt; auto). assert (Hszr : 0 < IZR (size g)) by (apply IZR_lt; auto).
  set (oR := IZR (g_off g) / IZR den) in *. set (u := IZR spacing / IZR (den * size g)) in *. set (H := IZR spacing / IZR den).
  assert (Nv : nn values).
  { rewrite forallb_forall in Hnn. apply Forall_forall. intros a Ha. specialize (Hnn a Ha). apply andb_prop in Hnn as [A B].
    apply Z.leb_le in A, B. split; auto. }
  assert (Nl : nn l).
  { unfold l. clear - Nv HV HS. induction Nv as [|a l [A B] _ IH]; simpl; constructor; auto. split; simpl.
    - apply Z.div_pos; nia. - apply cdiv_pos_le; nia. }
  (* rounding *)
  assert (R1 : forall f, K f -> forall ps, IZR V * at_places (xp oR u) ps l f <= IZR S * at_places (xp oR u) ps values f).
  { intros f Kf. unfold l. clear - Kf Nv HV HS HVr HSr. induction Nv as [|a v [A B] _ IH]; intros [|p ps]; simpl; try lra. rewrite !Rmult_plus_distr_l.
    apply Rplus_le_compat; auto. assert (Hx : 0 <= xp oR u p) by apply nn_exp. apply IZR_le in A as A', B as B'.
    rewrite <- !persp_scal by auto.
    assert (A1 : (0 <= fst a * S)%Z) by nia. assert (B1 : (0 <= snd a * S)%Z) by nia.
    destruct (div_pos_le (fst a * S) V HV A1) as [P0 P1]. destruct (cdiv_pos_le (snd a * S) V HV B1) as [Q0 Q1].
    rewrite mult_IZR in P1, Q1. apply persp_mono; auto.
    - split; [apply Rmult_le_pos; lra | lra].
    - split; [repeat apply Rmult_le_pos; lra|].
      replace (IZR S * (xp oR u p * IZR (snd a))) with (xp oR u p * (IZR (snd a) * IZR S)) by ring.
      replace (IZR V * (xp oR u p * IZR (cdiv (snd a * S) V))) with (xp oR u p * (IZR V * IZR (cdiv (snd a * S) V))) by ring.
      apply Rmult_le_compat_l; auto. }
  destruct (split_like_spec _ _ _ _ E1) as (El1 & L1 & _). destruct (split_like_spec _ _ _ _ E2) as (El2 & L2 & _).
  destruct (split_like_spec _ _ _ _ E3) as (El3 & L3 & _). rewrite El1 in Nl. apply nn_app in Nl as [N1 Nr]. rewrite El2 in Nr. apply nn_app in Nr as [N2 Nr].
  rewrite El3 in Nr. apply nn_app in Nr as [N3 _].
  (* three runs of places *)
  assert (Hg : forall p, xp oR u (p * 1)%Z = pt (gs H (g_halv g)) oR p).
  { intros p. unfold xp, yp, pt, u, gs, H. fold (size g). rewrite !mult_IZR. f_equal. field. lra. }
  assert (Hc : forall p, xp oR u (p * size g)%Z = pt H oR p).
  { intros p. unfold xp, yp, pt, u, H. rewrite !mult_IZR. f_equal. field. lra. }
  assert (R2 : forall f, at_places (xp oR u) (places g) l f =
    at_grid H oR (Chances (g_floor g) l1) f + (at_grid (gs H (g_halv g)) oR (Chances (g_ffirst g) l2) f + at_grid H oR (Chances (g_hfirst g) l3) f)).
  { intros f. unfold places, at_grid. cbn [c_first c_list].
    rewrite (at_places_app _ _ _ _ l l1 r1) by (rewrite split_arith; auto). rewrite (at_places_app _ _ _ _ r1 l2 r2) by (rewrite split_arith; auto).
    rewrite (at_places_grid _ _ H oR (size g)) by auto.
    replace (g_ffirst g) with (g_ffirst g * 1)%Z at 1 by ring. rewrite (at_places_grid _ _ (gs H (g_halv g)) oR 1) by auto.
    rewrite <- (app_nil_r (arith (g_hfirst g * size g) _ _)), (at_places_app _ _ _ _ r2 l3 r3) by (rewrite split_arith; auto).
    rewrite (at_places_grid _ _ H oR (size g)) by auto. simpl. lra. }
  destruct (cadd_ok H oR (Chances (g_floor g) l1) (Chances (g_hfirst g) l3) N1 N3) as [Nc Vc].
  assert (HiS : (0 <= infinite * S)%Z) by nia. destruct (div_pos_le (infinite * S) V HV HiS) as [I0 I1]. rewrite mult_IZR in I1.
  split; [exact Hh|]. split; [exact N2|]. split; [exact Nc|]. split; [cbn [t_infi]; apply le_IZR in I0; lia|].
  intros f Kf. cbn [t_halv t_fine t_coarse t_infi]. specialize (Vc f Kf). specialize (Hv f Kf). specialize (R1 f Kf (places g)). rewrite R2 in R1.
  assert (F0 : 0 <= f 0) by (apply (K_pos _ Kf); lra).
  assert (Hm : IZR (Z.min S (infinite * S / V)) * f 0 <= IZR (infinite * S / V) * f 0) by (apply Rmult_le_compat_r; auto; apply IZR_le; lia).
  assert (I2 : IZR V * IZR (infinite * S / V) * f 0 <= IZR infinite * IZR S * f 0) by (apply Rmult_le_compat_r; auto).
  apply Rmult_le_reg_l with (IZR V); auto. apply (Rmult_le_compat_l (IZR S)) in Hv; [|lra].
  replace (IZR S * (at_places (xp oR u) (places g) values f + IZR infinite * f 0)) with
    (IZR S * at_places (xp oR u) (places g) values f + IZR infinite * IZR S * f 0) in Hv by ring.
  apply (Rmult_le_compat_l (IZR V)) in Vc; [|lra]. apply (Rmult_le_compat_l (IZR V)) in Hm; [|lra]. lra.
Qed.

(* ---------- Tests of a sampled Gaussian ---------- *)

(* Chances of the outcomes between thresholds: pa and qa beyond the threshold before, Pc and Qc beyond each. *)
Fixpoint enclosed (V : R) (X : Z -> R) (Pc Qc : Z -> R) (pa qa : R) (ps ts : list Z) (l : list (Z * Z)) : Prop :=
  match ps, l with
  | p :: ps', a :: l' =>
      let pb := match ts with [] => 0 | t :: _ => Pc t end in
      let qb := match ts with [] => 0 | t :: _ => Qc t end in
      0 <= IZR (fst a) <= V * (pa - pb) /\ V * (qa - qb) <= X p * IZR (snd a) /\ 0 <= IZR (snd a) /\
      (IZR (snd a) = 0 -> IZR (fst a) = 0) /\ enclosed V X Pc Qc pb qb ps' (tl ts) l'
  | _, _ => True
  end.

Section tests.
  Variables (B M : Z) (fuel : nat) (m zlo zhi qn qd : Z) (noises : (Z * Z) * (Z * Z)) (sign T : Z) (s : R).
  Hypotheses (HB : (0 <= B)%Z) (EM : M = (2 ^ B)%Z) (Hm : (0 < m)%Z) (Hz : (0 < zlo)%Z).
  Hypotheses (Z1 : IZR zlo <= IZR M * G (IZR m)) (Z2 : IZR M * half_Z <= IZR zhi).
  Hypotheses (Hqd : (0 < qd)%Z) (Hqn : (0 <= qn <= qd)%Z) (Hsign : sign = 1%Z \/ sign = (-1)%Z) (HT : (0 < T)%Z).

  Let q := IZR qn / IZR qd.
  Let HM : 0 < IZR M. Proof. rewrite EM. apply IZR_lt, Z.pow_pos_nonneg; lia. Qed.
  Let HqdR : 0 < IZR qd. Proof. apply IZR_lt; auto. Qed.
  Let HTR : 0 < IZR T. Proof. apply IZR_lt; auto. Qed.

  Definition without (t : Z) : R := Phi (- (IZR t / IZR T)).
  Definition moved (t : Z) : R := Phi (IZR sign / s - IZR t / IZR T).
  Definition with_ (t : Z) : R := (1 - q) * without t + q * moved t.

  Lemma q01 : 0 <= q <= 1.
  Proof.
    destruct Hqn as [A A']. apply IZR_le in A, A'. unfold q. split; [apply ratio_nonneg; lra|].
    apply Rmult_le_reg_r with (IZR qd); auto. unfold Rdiv. rewrite Rmult_assoc, Rinv_l; lra.
  Qed.
  Lemma moved_ok c d t lo hi : (0 < c)%Z -> (0 < d)%Z -> cdf B M fuel m zlo zhi (sign * d * T - t * c) (c * T) = (lo, hi) ->
    IZR lo <= IZR M * Phi (IZR sign * (IZR d / IZR c) - IZR t / IZR T) <= IZR hi.
  Proof.
    intros Hc Hd E. apply IZR_lt in Hc as Hc', Hd as Hd'.
    replace (IZR sign * (IZR d / IZR c) - IZR t / IZR T) with (IZR (sign * d * T - t * c) / IZR (c * T)).
    - apply (cdf_ok B M fuel HB EM m zlo zhi Hz Z1 Z2) with (2 := E). nia.
    - rewrite minus_IZR, !mult_IZR. field. lra.
  Qed.
  Hypothesis Hpos : (0 < fst (fst noises) /\ 0 < snd (fst noises) /\ 0 < fst (snd noises) /\ 0 < snd (snd noises))%Z.
  Hypothesis Hs : IZR (fst (fst noises)) / IZR (snd (fst noises)) <= s <= IZR (fst (snd noises)) / IZR (snd (snd noises)).
  Lemma beyond_ok t pl ph ql qh : beyond B M fuel m zlo zhi qn qd noises sign T t = ((pl, ph), (ql, qh)) ->
    IZR pl <= IZR M * with_ t <= IZR ph /\ IZR ql <= IZR M * without t <= IZR qh.
  Proof.
    unfold beyond. destruct noises as [[c1 d1] [c2 d2]]. cbn [fst snd] in *. destruct Hpos as (C1 & D1 & C2 & D2).
    destruct (cdf B M fuel m zlo zhi (- t) T) as [lo hi] eqn:E0.
    destruct (cdf B M fuel m zlo zhi (sign * d1 * T - t * c1) (c1 * T)) as [l1 h1] eqn:E1.
    destruct (cdf B M fuel m zlo zhi (sign * d2 * T - t * c2) (c2 * T)) as [l2 h2] eqn:E2.
    intros E. apply pair_eq in E as [E E']. apply pair_eq in E as [<- <-]. apply pair_eq in E' as [<- <-].
    assert (W : IZR lo <= IZR M * without t <= IZR hi).
    { unfold without. replace (- (IZR t / IZR T)) with (IZR (- t) / IZR T) by (rewrite opp_IZR; field; lra).
      apply (cdf_ok B M fuel HB EM m zlo zhi Hz Z1 Z2) with (2 := E0). auto. }
    split; auto. pose proof (moved_ok _ _ _ _ _ C1 D1 E1) as M1. pose proof (moved_ok _ _ _ _ _ C2 D2 E2) as M2.
    apply IZR_lt in C1, D1, C2, D2.
    assert (I : IZR d2 / IZR c2 <= / s <= IZR d1 / IZR c1).
    { assert (P1 : 0 < IZR c1 / IZR d1) by (apply Rdiv_lt_0_compat; auto). replace (IZR d1 / IZR c1) with (/ (IZR c1 / IZR d1)) by (field; lra).
      replace (IZR d2 / IZR c2) with (/ (IZR c2 / IZR d2)) by (field; lra). split; apply Rinv_le_contravar; lra. }
    assert (F : IZR (Z.min l1 l2) <= IZR M * moved t <= IZR (Z.max h1 h2)).
    { pose proof (IZR_le _ _ (Z.le_min_l l1 l2)). pose proof (IZR_le _ _ (Z.le_min_r l1 l2)).
      pose proof (IZR_le _ _ (Z.le_max_l h1 h2)). pose proof (IZR_le _ _ (Z.le_max_r h1 h2)). unfold moved, Rdiv at 1 3.
      destruct Hsign as [-> | ->].
      - assert (IZR M * Phi (1 * (IZR d2 / IZR c2) - IZR t / IZR T) <= IZR M * Phi (1 * / s - IZR t / IZR T)) by (apply Rmult_le_compat_l; [lra | apply Phi_incr; lra]).
        assert (IZR M * Phi (1 * / s - IZR t / IZR T) <= IZR M * Phi (1 * (IZR d1 / IZR c1) - IZR t / IZR T)) by (apply Rmult_le_compat_l; [lra | apply Phi_incr; lra]). lra.
      - assert (IZR M * Phi (-1 * (IZR d1 / IZR c1) - IZR t / IZR T) <= IZR M * Phi (-1 * / s - IZR t / IZR T)) by (apply Rmult_le_compat_l; [lra | apply Phi_incr; lra]).
        assert (IZR M * Phi (-1 * / s - IZR t / IZR T) <= IZR M * Phi (-1 * (IZR d2 / IZR c2) - IZR t / IZR T)) by (apply Rmult_le_compat_l; [lra | apply Phi_incr; lra]). lra. }
    pose proof q01 as [q0 q1]. assert (Er : IZR (qd - qn) = IZR qd * (1 - q)) by (rewrite minus_IZR; unfold q; field; lra).
    assert (Eq : IZR qn = IZR qd * q) by (unfold q; field; lra).
    assert (G1 : forall a b, (IZR qd * (1 - q) * a + IZR qd * q * b) / IZR qd = (1 - q) * a + q * b) by (intros; field; lra).
    unfold with_. replace (IZR M * ((1 - q) * without t + q * moved t)) with ((1 - q) * (IZR M * without t) + q * (IZR M * moved t)) by ring. split.
    - eapply Rle_trans; [apply fdiv_le; auto|]. rewrite plus_IZR, !mult_IZR, Er, Eq, G1. apply Rplus_le_compat; apply Rmult_le_compat_l; lra.
    - eapply Rle_trans; [|apply le_cdivR; auto]. rewrite plus_IZR, !mult_IZR, Er, Eq, G1. apply Rplus_le_compat; apply Rmult_le_compat_l; lra.
  Qed.
  Lemma without_falls t t' : (t <= t')%Z -> without t' <= without t.
  Proof. intros H. apply IZR_le in H. apply Phi_incr. assert (IZR t / IZR T <= IZR t' / IZR T) by (apply Rmult_le_compat_r; auto; left; apply Rinv_0_lt_compat; auto). lra. Qed.
  Lemma moved_falls t t' : (t <= t')%Z -> moved t' <= moved t.
  Proof. intros H. apply IZR_le in H. apply Phi_incr. assert (IZR t / IZR T <= IZR t' / IZR T) by (apply Rmult_le_compat_r; auto; left; apply Rinv_0_lt_compat; auto). lra. Qed.
  Lemma with_falls t t' : (t <= t')%Z -> with_ t' <= with_ t.
  Proof.
    intros H. pose proof q01. pose proof (without_falls _ _ H). pose proof (moved_falls _ _ H). unfold with_.
    apply Rplus_le_compat; apply Rmult_le_compat_l; lra.
  Qed.
  Lemma with_01 t : 0 <= with_ t <= 1.
  Proof.
    pose proof q01. assert (A : 0 <= without t <= 1) by (split; [apply Phi_nonneg | apply Phi_le1]).
    assert (A' : 0 <= moved t <= 1) by (split; [apply Phi_nonneg | apply Phi_le1]). unfold with_.
    assert (0 <= (1 - q) * without t <= (1 - q) * 1) by (split; [apply Rmult_le_pos | apply Rmult_le_compat_l]; lra).
    assert (0 <= q * moved t <= q * 1) by (split; [apply Rmult_le_pos | apply Rmult_le_compat_l]; lra). lra.
  Qed.

  Variables (w : Z) (up : bool) (loss_at : Z -> Z) (D : Z).
  Hypotheses (Hw : (0 <= w <= B)%Z) (HD : (0 < D)%Z).
  Definition chance_p (t : Z) : R := if up then with_ t else without t.
  Definition chance_q (t : Z) : R := if up then without t else with_ t.

  Lemma chance_01 t : 0 <= chance_p t <= 1 /\ 0 <= chance_q t <= 1.
  Proof.
    pose proof (with_01 t). assert (0 <= without t <= 1) by (split; [apply Phi_nonneg | apply Phi_le1]).
    unfold chance_p, chance_q. destruct up; auto.
  Qed.
  Lemma chance_falls t t' : (t <= t')%Z -> chance_p t' <= chance_p t /\ chance_q t' <= chance_q t.
  Proof. intros H. pose proof (with_falls _ _ H). pose proof (without_falls _ _ H). unfold chance_p, chance_q. destruct up; auto. Qed.

  Lemma scored_ok : forall ps p q' ts out l pa qa, scored B M fuel m zlo zhi qn qd noises sign T w up loss_at D p q' ps ts out = Some l ->
    IZR p <= IZR M * pa -> IZR M * qa <= IZR q' -> 0 <= pa -> 0 <= qa -> not_falling ts = true ->
    match ts with [] => True | t :: _ => chance_p t <= pa /\ chance_q t <= qa end ->
    exists l', l = rev out ++ l' /\ enclosed (IZR (2 ^ w)) (fun p => exp (- (IZR (loss_at p) / IZR D))) chance_p chance_q pa qa ps ts l'.
  Proof.
    assert (HV : (0 < 2 ^ w)%Z) by (apply Z.pow_pos_nonneg; lia). apply IZR_lt in HV as HVr.
    assert (HN : (0 < 2 ^ (2 * B - w))%Z) by (apply Z.pow_pos_nonneg; lia). apply IZR_lt in HN as HNr.
    assert (EN : IZR M * IZR M = IZR (2 ^ (2 * B - w)) * IZR (2 ^ w)).
    { rewrite EM, <- !mult_IZR, <- !Z.pow_add_r by lia. do 2 f_equal. lia. }
    assert (HMZ : (0 < 2 ^ B)%Z) by (apply Z.pow_pos_nonneg; lia).
    induction ps as [|place ps IH]; intros p q' ts out l pa qa E Hp Hq Hpa Hqa Hf Hts; cbn [scored] in E.
    { exists []. injection E as <-. unfold back. rewrite rev_append_rev, app_nil_r. split; simpl; auto. }
    set (pb := match ts with [] => 0 | t :: _ => chance_p t end). set (qb := match ts with [] => 0 | t :: _ => chance_q t end).
    destruct (match ts with [] => ((0, 0), (0, 0))%Z | t :: _ => _ end) as [[plow phigh] [qlow qhigh]] eqn:Eb.
    assert (Hb : IZR plow <= IZR M * pb <= IZR phigh /\ IZR qlow <= IZR M * qb <= IZR qhigh /\ 0 <= pb <= pa /\ 0 <= qb <= qa).
    { unfold pb, qb. destruct ts as [|t ts'].
      - injection Eb as <- <- <- <-. lra.
      - destruct (beyond _ _ _ _ _ _ _ _ _ _ _ t) as [[a1 a2] [b1 b2]] eqn:Ebe. destruct (beyond_ok _ _ _ _ _ Ebe) as [A1 A2].
        destruct (chance_01 t). unfold chance_p, chance_q in *. destruct up; injection Eb as <- <- <- <-; lra. }
    destruct Hb as (B1 & B2 & B3 & B4). destruct (exp_both B M fuel (loss_at place) D) as [[power0 power]|] eqn:Ee; [|discriminate].
    destruct (exp_both_ok B M fuel HB EM _ _ _ _ HD Ee) as [_ X2]. set (y := IZR (loss_at place) / IZR D) in *.
    set (a := (Z.max 0 (p - phigh) * 2 ^ w / 2 ^ B)%Z) in *. set (b := cdiv (Z.max 0 (q' - qlow) * power) (2 ^ (2 * B - w))) in *.
    assert (Hpow : (0 <= power)%Z) by (apply le_IZR; eapply Rle_trans; [|apply X2]; apply Rmult_le_pos; [lra | apply nn_exp]).
    assert (A1 : 0 <= IZR a <= IZR (2 ^ w) * (pa - pb)).
    { unfold a. split; [apply IZR_le, Z.div_pos; auto; apply Z.mul_nonneg_nonneg; lia|].
      eapply Rle_trans; [apply fdiv_le; auto|]. rewrite <- EM, mult_IZR, max0, minus_IZR.
      assert (Rmax 0 (IZR p - IZR phigh) <= IZR M * (pa - pb)) by (apply Rmax_lub; [apply Rmult_le_pos |]; lra).
      apply Rmult_le_reg_r with (IZR M); auto. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. rewrite Rmult_1_r.
      replace (IZR (2 ^ w) * (pa - pb) * IZR M) with (IZR M * (pa - pb) * IZR (2 ^ w)) by ring. apply Rmult_le_compat_r; lra. }
    assert (A2 : IZR (2 ^ w) * (qa - qb) <= exp (- y) * IZR b).
    { assert (Ey : exp (- y) * exp y = 1) by (rewrite <- exp_plus, Rplus_opp_l, exp_0; auto).
      assert (C : IZR M * (qa - qb) * (IZR M * exp y) <= IZR b * IZR (2 ^ (2 * B - w))).
      { unfold b. eapply Rle_trans; [|apply le_cdiv; auto]. rewrite mult_IZR, max0, minus_IZR. pose proof (nn_exp y).
        apply Rmult_le_compat; [apply Rmult_le_pos; lra | apply Rmult_le_pos; lra | | lra]. eapply Rle_trans; [|apply Rmax_r]. lra. }
      apply Rmult_le_reg_r with (IZR (2 ^ (2 * B - w))); auto.
      replace (exp (- y) * IZR b * IZR (2 ^ (2 * B - w))) with (exp (- y) * (IZR b * IZR (2 ^ (2 * B - w)))) by ring.
      apply Rle_trans with (exp (- y) * (IZR M * (qa - qb) * (IZR M * exp y))); [|apply Rmult_le_compat_l; auto].
      right. replace (exp (- y) * (IZR M * (qa - qb) * (IZR M * exp y))) with (IZR M * IZR M * (qa - qb) * (exp (- y) * exp y)) by ring.
      rewrite Ey, EN. ring. }
    assert (A3 : (0 <= b)%Z) by (apply cdiv_pos_le; auto; apply Z.mul_nonneg_nonneg; lia).
    assert (Hts' : not_falling (tl ts) = true /\ match tl ts with [] => True | t :: _ => chance_p t <= pb /\ chance_q t <= qb end).
    { unfold pb, qb. destruct ts as [|t [|t' ts']]; simpl in *; auto. apply andb_prop in Hf as [F1 F2]. split; auto. apply chance_falls, Z.leb_le; auto. }
    destruct (IH plow qhigh (tl ts) _ l pb qb E ltac:(lra) ltac:(lra) ltac:(lra) ltac:(lra) (proj1 Hts') (proj2 Hts')) as (l' & -> & En).
    exists ((if (b =? 0)%Z then 0%Z else a, b) :: l'). split; [simpl; rewrite <- app_assoc; reflexivity|]. cbn [enclosed fst snd]. fold pb qb.
    apply IZR_le in A3. destruct (Z.eqb_spec b 0) as [->|Hb].
    - split; [split; [lra|]; apply Rmult_le_pos; lra|]. auto.
    - split; auto. split; auto. split; auto. split; auto. intros H0. exfalso. apply Hb, eq_IZR. auto.
  Qed.
End tests.

Theorem own_scores_ok den spacing up law kd tbits ts values n : own_scores den spacing up law kd tbits ts = Some values -> states law n ->
  let T := (2 ^ tbits)%Z in let g := k_grid kd in
  exists qn qd, rate n = IZR qn / IZR qd /\ (0 <= k_vbits kd)%Z /\ (0 <= tbits)%Z /\ (0 < den)%Z /\ not_falling ts = true /\
  let Pc t := chance_p qn qd (if up then 1 else -1)%Z T (dev n) up t in
  let Qc t := chance_q qn qd (if up then 1 else -1)%Z T (dev n) up t in
  (forall t t', (t <= t')%Z -> Pc t' <= Pc t /\ Qc t' <= Qc t) /\
  enclosed (IZR (2 ^ k_vbits kd)) (xp (IZR (g_off g) / IZR den) (IZR spacing / IZR (den * size g))) Pc Qc 1 1 (places g) ts values.
Proof.
  intros E (o & El & Er & Ed) T g0. destruct (read_own_ok _ _ El) as (Hb & Ha & Hc & Hd). fold (multiplier o) in Ed.
  unfold own_scores in E. rewrite El, places_e in E. fold g0 in E.
  set (w := k_vbits kd) in *. set (e := extra den spacing g0) in *.
  set (B2 := (2 * w + 280 + 2 * e)%Z) in *. set (fuel := Z.to_nat (8 * (w + e) + 1200)) in *. set (m := (Z.sqrt (7 * (w + 100 + e) / 5) + 1)%Z) in *.
  set (noises := multipliers o (w + e + 100)) in *. set (reach := (_ + snd (fst noises) / _ + 2)%Z) in E.
  set (B := Z.min B2 _) in E. destruct (half_z B2 (2 ^ B2) fuel m) as [zlo2 zhi2] eqn:EZ.
  set (zlo := (zlo2 / 2 ^ (B2 - B))%Z) in *. set (zhi := cdiv zhi2 (2 ^ (B2 - B))) in *.
  match type of E with (if ?c then _ else _) = _ => destruct c eqn:Ec; [|discriminate] end.
  rewrite !andb_true_iff in Ec. destruct Ec as [[[[[[[[E1 E2] E3] E4] E5] E6] E7] E8] E9].
  apply Z.leb_le in E1, E5, E6, E7, E8. apply Z.ltb_lt in E2, E3, E4.
  assert (HB2 : (0 <= B2)%Z) by lia. assert (HM : (0 < 2 ^ B)%Z) by (apply Z.pow_pos_nonneg; lia).
  assert (HC : (0 < 2 ^ (B2 - B))%Z) by (apply Z.pow_pos_nonneg; lia).
  assert (EC : (2 ^ B2 = 2 ^ B * 2 ^ (B2 - B))%Z) by (rewrite <- Z.pow_add_r by lia; f_equal; lia).
  destruct (half_z_ok B2 (2 ^ B2) fuel HB2 eq_refl m zlo2 zhi2 E2 EZ) as [Z1 Z2].
  assert (HCR : 0 < IZR (2 ^ (B2 - B))) by (apply IZR_lt; auto).
  assert (Z1' : IZR zlo <= IZR (2 ^ B) * G (IZR m)).
  { unfold zlo. eapply Rle_trans; [apply fdiv_le; auto|]. rewrite EC, mult_IZR in Z1. apply Rmult_le_reg_r with (IZR (2 ^ (B2 - B))); auto.
    unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra. }
  assert (Z2' : IZR (2 ^ B) * half_Z <= IZR zhi).
  { unfold zhi. eapply Rle_trans; [|apply le_cdivR; auto]. rewrite EC, mult_IZR in Z2. apply Rmult_le_reg_r with (IZR (2 ^ (B2 - B))); auto.
    unfold Rdiv. rewrite (Rmult_assoc (IZR zhi2)), Rinv_l by lra. lra. }
  assert (HT : (0 < 2 ^ tbits)%Z) by (apply Z.pow_pos_nonneg; lia).
  assert (HS : (0 < size g0)%Z) by (apply Z.pow_pos_nonneg; lia). assert (HD : (0 < den * size g0)%Z) by (apply Z.mul_pos_pos; auto).
  assert (He : (0 <= e)%Z) by (unfold e, extra; lia).
  destruct (multipliers_ok o (w + e + 100) (fst noises) (snd noises) Hc Hd ltac:(lia) (surjective_pairing _)) as [Pm Qm]. rewrite <- Ed in Qm.
  exists (o_a o), (o_b o). split; [exact Er|]. split; [exact E1|]. split; [exact E8|]. split; [exact E4|]. split; [exact E9|]. cbv zeta.
  assert (Hsign : (if up then 1 else -1)%Z = 1%Z \/ (if up then 1 else -1)%Z = (-1)%Z) by (destruct up; auto).
  assert (HM1 : IZR (2 ^ B) <= IZR (2 ^ B) * 1) by lra. assert (HM2 : IZR (2 ^ B) * 1 <= IZR (2 ^ B)) by lra.
  assert (HB : (0 <= B)%Z) by lia. assert (Hw : (0 <= w <= B)%Z) by lia.
  pose proof (chance_01 (o_a o) (o_b o) (if up then 1 else -1)%Z (2 ^ tbits) (dev n)) as H01.
  pose proof (chance_falls (o_a o) (o_b o) (if up then 1 else -1)%Z (2 ^ tbits) (dev n)) as Hfalls.
  split.
  { intros t t' Ht. apply Hfalls; auto. }
  destruct (scored_ok B (2 ^ B) fuel m zlo zhi (o_a o) (o_b o) noises (if up then 1 else -1)%Z (2 ^ tbits) (dev n)
    HB eq_refl E3 Z1' Z2' Hb Ha Hsign HT Pm Qm w up (fun p => g_off g0 * size g0 + p * spacing)%Z (den * size g0)%Z Hw HD
    (places g0) (2 ^ B)%Z (2 ^ B)%Z ts [] values 1 1 E HM1 HM2 ltac:(lra) ltac:(lra) E9) as (l & -> & En).
  { destruct ts as [|t ts0]; auto. destruct (H01 Hb Ha up t) as [[_ ?] [_ ?]]; auto. }
  apply IZR_lt in HS, E4.
  assert (EX : (fun p => exp (- (IZR (g_off g0 * size g0 + p * spacing) / IZR (den * size g0)))) = xp (IZR (g_off g0) / IZR den) (IZR spacing / IZR (den * size g0))).
  { apply FunctionalExtensionality.functional_extensionality. intros p. unfold xp, yp. f_equal. f_equal. rewrite plus_IZR, !mult_IZR. field. lra. }
  rewrite EX in En. exact En.
Qed.
