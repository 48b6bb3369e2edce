(* The checker is right. *)
Require Import Reals ZArith List Lra Lia Permutation Bool.
Require Import Evr.Order Evr.Integers Evr.Masses Evr.GridLaw Evr.LastSum Evr.Product Evr.Powers Evr.Composer.
Import ListNotations.
Open Scope R_scope.

(* Composition of the steps of a word of kinds, in its order. *)
Fixpoint word (mus : nat -> (R -> R) -> R) (w : list nat) : (R -> R) -> R :=
  match w with [] => unit_law | k :: w' => comp (mus k) (word mus w') end.

Section words.
  Variable mus : nat -> (R -> R) -> R.
  Hypothesis laws : forall k, law (mus k).

  Lemma law_word w : law (word mus w).
  Proof. induction w; simpl; [apply law_unit | apply law_comp; auto]. Qed.

  Lemma comp_ext M N N' f : law M -> law N -> law N' -> K f -> (forall g, K g -> N g = N' g) -> comp M N f = comp M N' f.
  Proof.
    intros LM LN LN' Kf HN. unfold comp. apply law_ext; auto; try (apply K_under; auto).
    intros x Hx. apply HN. apply K_inner; auto.
  Qed.

  Lemma comp_assoc L M N f : law L -> law M -> law N -> K f -> comp (comp L M) N f = comp L (comp M N) f.
  Proof.
    intros LL LM LN Kf. pose proof (law_comp _ _ LM LN) as LMN. unfold comp in *.
    pose proof (fun x Hx => K_under N _ LN (K_inner f x Kf Hx)) as KN.
    assert (E1 : forall x, 0 <= x ->
      M (fun y => N (fun z => f (x * y * z))) = M (fun y => N (fun z => f (x * (y * z))))).
    { intros x Hx. assert (K1 : K (fun y => N (fun z => f (x * y * z)))).
      { apply (K_inner (fun t => N (fun z => f (t * z)))); auto. apply K_under; auto. }
      apply law_ext; auto.
      intros y Hy. apply law_ext; auto.
      - apply (K_inner f (x * y)); auto. apply Rmult_le_pos; auto.
      - apply (K_inner (fun t => f (x * t)) y); auto. apply K_inner; auto.
      - intros; f_equal; ring. }
    apply law_ext; auto.
    - apply (K_under M (fun t => N (fun z => f (t * z)))); auto. apply K_under; auto.
    - apply (K_under (fun f => M (fun x => N (fun y => f (x * y)))) f); auto.
  Qed.

  Lemma word_app w w' f : K f -> comp (word mus w) (word mus w') f = word mus (w ++ w') f.
  Proof.
    revert f. induction w; intros f Kf; cbn [word app].
    - unfold comp, unit_law. apply law_ext; auto using law_word.
      + apply K_inner; auto; lra.
      + intros; f_equal; ring.
    - rewrite comp_assoc; auto using law_word.
      apply comp_ext; auto using law_word, law_comp.
  Qed.

  Lemma word_one k f : K f -> word mus [k] f = mus k f.
  Proof.
    intros Kf. simpl. unfold comp, unit_law. apply law_ext; auto.
    - pose proof (K_inner' f 1 Kf ltac:(lra)). auto.
    - intros; f_equal; ring.
  Qed.

  (* Fubini's theorem, of which nothing else is used than this *)
  Hypothesis fubini : forall i j f, K f -> comp (mus i) (mus j) f = comp (mus j) (mus i) f.

  Lemma word_perm w w' : Permutation w w' -> forall f, K f -> word mus w f = word mus w' f.
  Proof.
    induction 1; intros f Kf; cbn [word]; auto.
    - apply comp_ext; auto using law_word.
    - rewrite <- !comp_assoc; auto using law_word.
      change (comp (comp (mus y) (mus x)) (word mus l) f) with
        (comp (mus y) (mus x) (fun t => word mus l (fun z => f (t * z)))).
      rewrite fubini; auto. apply K_under; auto using law_word.
    - rewrite IHPermutation1; auto.
  Qed.
End words.

Definition cnt (w : list nat) (k : nat) : Z := Z.of_nat (count_occ Nat.eq_dec w k).

Lemma get_in {A} (l : list A) : forall i a, get l i = Some a -> In a l.
Proof.
  induction l; intros i x Hg; simpl in *; [discriminate|].
  destruct (i =? 0)%Z; [inversion Hg; auto | right; eauto].
Qed.

Lemma numbered {A} (l : list A) k x : In (k, x) (combine (seq 0 (length l)) l) -> nth_error l k = Some x.
Proof.
  assert (forall (l : list A) s, In (k, x) (combine (seq s (length l)) l) -> (s <= k)%nat /\ nth_error l (k - s) = Some x) as H0.
  { clear l. induction l; intros s; simpl; [tauto|]. intros [Heq|Hin].
    - inversion Heq; subst. rewrite Nat.sub_diag. simpl. auto.
    - apply IHl in Hin. destruct Hin as [L G]. split; [lia|]. replace (k - s)%nat with (Datatypes.S (k - Datatypes.S s)) by lia. auto. }
  intros Hin. apply H0 in Hin. rewrite Nat.sub_0_r in Hin. apply Hin.
Qed.

Section sound.
  Variable C : cert.
  Variable mus : nat -> (R -> R) -> R.
  Hypothesis laws : forall k, law (mus k).
  Hypothesis Hbits : (0 <= bits C)%Z.
  Hypothesis Hden : (0 < den C)%Z.
  Hypothesis Hspa : (0 < spacing C)%Z.

  Let S := SS C.
  Let H := IZR (spacing C) / IZR (den C).
  Let n := length (kinds C).

  Hypothesis steps : forall k o X, nth_error (kinds C) k = Some (o, X) ->
    covers S H (IZR o / IZR (den C)) X (mus k).

  Lemma S_pos : (0 < S)%Z. Proof. apply Z.pow_pos_nonneg; lia. Qed.
  Lemma W_pos : (0 < WW C)%Z. Proof. apply Z.pow_pos_nonneg; unfold guard; lia. Qed.
  Lemma Q_pos : (0 < QQ C)%Z. Proof. apply Z.pow_pos_nonneg; lia. Qed.
  Lemma den_pos : 0 < IZR (den C). Proof. apply (IZR_lt 0); auto. Qed.
  Lemma H_pos : 0 < H.
  Proof. apply Rmult_lt_0_compat; [apply (IZR_lt 0); auto | apply Rinv_0_lt_compat, den_pos]. Qed.

  Lemma down_ok W m : (0 < W)%Z -> (0 <= down C W m)%Z /\ IZR (down C W m) <= IZR W * exp (IZR m / IZR (den C)).
  Proof.
    intros HW. pose proof Q_pos as HQ. unfold down.
    destruct (exp_down_ok (sqs C) (QQ C) m (den C) HQ Hden) as [D0 D1].
    split; [apply Z.div_pos; nia|].
    apply (IZR_lt 0) in HQ as HQr. apply (IZR_lt 0) in HW.
    apply Rmult_le_reg_r with (IZR (QQ C)); auto.
    eapply Rle_trans; [apply div_le; auto|]. rewrite mult_IZR.
    assert (IZR (exp_down (sqs C) (QQ C) m (den C)) * IZR W <= (IZR (QQ C) * exp (IZR m / IZR (den C))) * IZR W)
      by (apply Rmult_le_compat_r; lra). lra.
  Qed.

  Lemma neg_H : IZR (- spacing C) / IZR (den C) = - H.
  Proof. unfold H. rewrite opp_IZR. field. pose proof den_pos; lra. Qed.

  Lemma sh_ok a b : (0 <= b < a)%Z -> shares_ok S (exp (- gs H a)) (exp (- gs H b)) 1 (shC C a b).
  Proof.
    intros Hab. unfold shC.
    assert (H2 : forall c, (0 <= c)%Z -> (0 < 2 ^ c)%Z) by (intros; apply Z.pow_pos_nonneg; lia).
    pose proof (shares_ok_computed (sqs C) (QQ C) S (spacing C) (den C * 2 ^ a) (a - b)
      S_pos Q_pos Hspa ltac:(specialize (H2 a ltac:(lia)); nia) ltac:(lia)) as Hs.
    pose proof den_pos.
    assert (Ha : IZR (2 ^ a) <> 0) by (apply not_0_IZR; specialize (H2 a ltac:(lia)); lia).
    assert (Hb : IZR (2 ^ b) <> 0) by (apply not_0_IZR; specialize (H2 b ltac:(lia)); lia).
    assert (Hc : IZR (2 ^ (a - b)) <> 0) by (apply not_0_IZR; specialize (H2 (a - b)%Z ltac:(lia)); lia).
    replace (gs H a) with (IZR (spacing C) / IZR (den C * 2 ^ a)).
    2:{ unfold gs, H. rewrite mult_IZR. field. split; lra. }
    replace (gs H b) with (IZR (2 ^ (a - b)) * (IZR (spacing C) / IZR (den C * 2 ^ a))); auto.
    unfold gs, H. rewrite mult_IZR.
    replace (2 ^ a)%Z with (2 ^ (a - b) * 2 ^ b)%Z.
    2:{ rewrite <- Z.pow_add_r by lia. f_equal; lia. }
    rewrite mult_IZR. field. repeat split; auto; lra.
  Qed.

  Definition offs : list Z := map fst (kinds C).
  Definition cnts (w : list nat) : list Z := map (cnt w) (seq 0 n).
  Definition offset (w : list nat) : R := IZR (dot (cnts w) offs) / IZR (den C).

  Definition reg_ok (r : reg) : Prop :=
    exists w, fst r = cnts w /\ (forall k, In k w -> (k < n)%nat) /\ covers S H (offset w) (snd r) (word mus w).

  Lemma cnts_app w w' : zadd (cnts w) (cnts w') = cnts (w ++ w').
  Proof.
    unfold cnts, zadd. generalize (seq 0 n). induction l; simpl; auto. rewrite IHl. f_equal.
    unfold cnt. rewrite count_occ_app. lia.
  Qed.

  Lemma dot_app l : forall w w' (o : list Z),
    (dot (map (cnt w) l) o + dot (map (cnt w') l) o)%Z = dot (map (cnt (w ++ w')) l) o.
  Proof.
    induction l; intros w w' [|y o]; simpl; auto. rewrite <- IHl. unfold cnt. rewrite count_occ_app. lia.
  Qed.

  Lemma offset_app w w' : offset w + offset w' = offset (w ++ w').
  Proof.
    unfold offset, cnts. rewrite <- dot_app, plus_IZR. field. pose proof den_pos; lra.
  Qed.

  Lemma covers_ext o X mu mu' : (forall f, K f -> mu' f = mu f) -> covers S H o X mu -> covers S H o X mu'.
  Proof.
    intros He (A & B & nF & nC & z & R1 & R2 & R3 & R4 & R5).
    split; auto. split; auto. exists nF, nC, z. repeat (split; auto). intros f Kf. rewrite He; auto.
  Qed.

  Lemma product_ok w a b : reg_ok a -> reg_ok b -> reg_ok (product C (down C (SS C) (- spacing C)) w a b).
  Proof.
    intros (u & Fa & Ia & Ca) (v & Fb & Ib & Cb). exists (u ++ v). simpl.
    split; [rewrite Fa, Fb; apply cnts_app|]. split.
    { intros k Hk. apply in_app_or in Hk. destruct Hk; auto. }
    rewrite <- offset_app. apply covers_ext with (comp (word mus u) (word mus v)).
    { intros f Kf. symmetry. apply word_app; auto. }
    apply covers_within; try apply S_pos; try apply H_pos; try apply sh_ok.
    - pose proof (down_ok (SS C) (- spacing C) S_pos). rewrite neg_H in *. auto.
    - apply covers_times; try apply S_pos; try apply H_pos; try apply sh_ok; auto using law_word.
      intros; apply kmul_ok; auto.
  Qed.

  Lemma square_ok w a : reg_ok a -> reg_ok (square_reg C (down C (SS C) (- spacing C)) w a).
  Proof.
    intros (u & Fa & Ia & Ca). exists (u ++ u). simpl.
    split; [rewrite Fa; apply cnts_app|]. split.
    { intros k Hk. apply in_app_or in Hk. destruct Hk; auto. }
    rewrite <- offset_app. apply covers_ext with (comp (word mus u) (word mus u)).
    { intros f Kf. symmetry. apply word_app; auto. }
    apply covers_within; try apply S_pos; try apply H_pos; try apply sh_ok.
    - pose proof (down_ok (SS C) (- spacing C) S_pos). rewrite neg_H in *. auto.
    - apply covers_square; try apply S_pos; try apply H_pos; try apply sh_ok; auto using law_word.
      + intros; apply kmul_ok; auto.
      + intros; apply ksqr_ok; auto.
  Qed.

  Lemma run_ok p : forall rs rs', Forall reg_ok rs -> run C (down C (SS C) (- spacing C)) p rs = Some rs' -> Forall reg_ok rs'.
  Proof.
    induction p as [|[[i j] w] p IH]; intros rs rs' Hrs Hr; simpl in Hr; [inversion Hr; subst; auto|].
    destruct (get rs i) as [a|] eqn:Ga; [|discriminate]. destruct (get rs j) as [b|] eqn:Gb; [|discriminate].
    apply IH in Hr; auto. apply Forall_app. split; auto. constructor; [|constructor].
    rewrite Forall_forall in Hrs.
    destruct (i =? j)%Z; [apply square_ok | apply product_ok]; apply Hrs; eapply get_in; eauto.
  Qed.

  Lemma no_steps : map (fun _ => 0%Z) (kinds C) = cnts [] /\ offset [] = 0.
  Proof.
    split.
    - unfold cnts, n. generalize (kinds C). intros l. generalize 0%nat.
      induction l; intros; simpl; auto. f_equal; auto.
    - unfold offset. replace (dot (cnts []) offs) with 0%Z. field; pose proof den_pos; lra.
      unfold cnts. generalize (seq 0 n) offs. induction l; intros [|y o]; simpl; auto.
  Qed.
  Lemma one_step k o X : nth_error (kinds C) k = Some (o, X) ->
    (k < n)%nat /\ one_hot C k = cnts [k] /\ offset [k] = IZR o / IZR (den C).
  Proof.
    intros Hk. split; [apply nth_error_Some; rewrite Hk; discriminate|]. split.
    - unfold one_hot, cnts. fold n. apply map_ext. intros j. unfold cnt. simpl.
      destruct (Nat.eq_dec k j); destruct (Nat.eqb_spec j k); try congruence; lia.
    - unfold offset. do 2 f_equal. unfold cnts, offs, n.
      assert (forall (l : list (Z * glaw)) k s, nth_error l k = Some (o, X) ->
         dot (map (cnt [(s + k)%nat]) (seq s (length l))) (map fst l) = o) as H0.
      { clear. induction l as [|[y Y] l IH]; intros k s Hn; [destruct k; discriminate|].
        cbn [length seq map dot fst]. destruct k; simpl in Hn.
        - inversion Hn; subst. rewrite Nat.add_0_r. unfold cnt at 1. cbn [count_occ].
          destruct (Nat.eq_dec s s); [|tauto].
          assert (Hz : forall (l : list (Z * glaw)) m, (s < m)%nat -> dot (map (cnt [s]) (seq m (length l))) (map fst l) = 0%Z).
          { clear. induction l; intros m Hm; cbn [length seq map dot]; auto. rewrite IHl by lia.
            unfold cnt; cbn [count_occ]. destruct (Nat.eq_dec s m); lia. }
          rewrite Hz by lia. lia.
        - replace (s + Datatypes.S k)%nat with (Datatypes.S s + k)%nat by lia. rewrite IH by auto.
          unfold cnt. cbn [count_occ]. destruct (Nat.eq_dec (Datatypes.S s + k) s); lia. }
      apply (H0 _ _ 0%nat Hk).
  Qed.

  Lemma start_ok : Forall reg_ok (start C).
  Proof.
    unfold start. constructor.
    - exists []. unfold unit_reg. simpl. destruct no_steps as [-> ->]. split; [auto|]. split; [tauto|].
      apply covers_unit; try apply S_pos; try apply H_pos.
    - apply Forall_forall. intros r Hr. apply in_map_iff in Hr. destruct Hr as ([k [o X]] & <- & Hin).
      apply numbered in Hin as Hk. cbn [fst snd]. destruct (one_step k o X Hk) as (Hkn & -> & Ho).
      exists [k]. cbn [fst snd]. split; [auto|]. split; [intros j [<-|[]]; auto|]. rewrite Ho.
      apply covers_ext with (mus k); auto. intros f Kf. apply word_one; auto.
  Qed.

  Lemma same_ok a : forall b, same a b = true -> a = b.
  Proof.
    induction a; intros [|y b] Hs; simpl in Hs; try discriminate; auto.
    apply andb_prop in Hs. destruct Hs as [A B]. apply Z.eqb_eq in A. f_equal; auto.
  Qed.

  (* the steps of a plan are those that are counted *)
  Lemma planned u v w : counts C = cnts (u ++ v) -> (forall k, In k u -> (k < n)%nat) -> (forall k, In k v -> (k < n)%nat) ->
    (forall k, cnt w k = nth k (counts C) 0%Z) -> Permutation w (u ++ v).
  Proof.
    intros Es Iu Iv Hw. apply (Permutation_count_occ Nat.eq_dec). intros k.
    specialize (Hw k). rewrite Es in Hw. unfold cnts in Hw.
    apply Nat2Z.inj. unfold cnt in *. rewrite Hw.
    destruct (Nat.lt_ge_cases k n) as [H1|H1].
    + rewrite (nth_indep _ 0%Z (cnt (u ++ v) 0)) by (rewrite map_length, seq_length; auto).
      change (nth k (map (cnt (u ++ v)) (seq 0 n)) (cnt (u ++ v) 0) = cnt (u ++ v) k).
      rewrite map_nth, seq_nth; auto.
    + rewrite nth_overflow by (rewrite map_length, seq_length; auto).
      assert (Hnot : ~ In k (u ++ v)).
      { intros Hin. apply in_app_or in Hin. destruct Hin as [Hin|Hin]; [apply Iu in Hin | apply Iv in Hin]; lia. }
      apply (count_occ_not_In Nat.eq_dec) in Hnot. rewrite Hnot. auto.
  Qed.

  Let epsR := IZR (eps C) / IZR (den C).

  Lemma finish_ok a b w w' :
    covers S H (offset w) (snd a) (word mus w) -> covers S H (offset w') (snd b) (word mus w') ->
    counts C = cnts (w ++ w') ->
    word mus (w ++ w') (phi epsR) <= IZR (finish C a b) / (IZR S * IZR S).
  Proof.
    intros Ca Cb Hc.
    pose proof S_pos as HS. apply (IZR_lt 0) in HS as HSr.
    assert (HSS : 0 < IZR S * IZR S) by (apply Rmult_lt_0_compat; auto).
    apply Rmult_le_reg_r with (IZR S * IZR S); auto.
    replace (IZR (finish C a b) / (IZR S * IZR S) * (IZR S * IZR S)) with (IZR (finish C a b)) by (field; lra).
    assert (Hone : word mus (w ++ w') (phi epsR) * (IZR S * IZR S) <= IZR (S * S)).
    { rewrite mult_IZR. rewrite <- (Rmult_1_l (IZR S * IZR S)) at 2. apply Rmult_le_compat_r; [lra|].
      rewrite <- (law_one _ (law_word mus laws (w ++ w'))).
      apply (law_mono _ (law_word mus laws (w ++ w'))); [apply K_phi | apply K_const; lra |].
      intros x Hx. unfold phi. apply Rmax_lub; [lra|].
      assert (0 <= exp epsR * x) by (apply Rmult_le_pos; auto). lra. }
    unfold finish.
    set (o := dot (counts C) (map fst (kinds C))). set (cut := ((eps C - o) / spacing C)%Z).
    destruct (cut <? _)%Z; auto.
    apply Z.min_case_strong; intros _; auto.
    destruct (covers_coarse S (shC C) H S_pos H_pos sh_ok _ _ _ Ca) as (nu & z & B & Hz & T & A).
    destruct (covers_coarse S (shC C) H S_pos H_pos sh_ok _ _ _ Cb) as (nu' & z' & B' & Hz' & T' & A').
    pose proof (below_fm _ _ _ _ _ B) as F. pose proof (below_fm _ _ _ _ _ B') as F'.
    assert (P1 : forall n, fm n -> 0 <= n (fun _ => 1)) by (intros m Hn; apply fm_pos; auto; intros; lra).
    pose proof (P1 _ F). pose proof (P1 _ F').
    destruct (either_ok S S_pos z z' (infi (snd a)) (infi (snd b))) as [Hzz _]; auto; try lra.
    { apply Ca. } { apply Cb. }
    rewrite <- word_app by (auto; apply K_phi).
    pose proof (comp_above _ _ _ _ _ _ (law_word mus laws w) (law_word mus laws w') F F'
      (proj1 Hz) (proj1 Hz') T T' A A' _ (K_phi epsR)) as M.
    replace (phi epsR 0) with 1 in M.
    2:{ unfold phi. rewrite Rmult_0_r, Rmax_right; lra. }
    set (c := exp (epsR - (offset w + offset w') - IZR cut * H)).
    pose proof den_pos as Hdr.
    assert (Hoff : offset w + offset w' = IZR o / IZR (den C)).
    { rewrite offset_app. unfold offset. rewrite <- Hc. auto. }
    assert (Hcc : c = exp (IZR (eps C - o - cut * spacing C) / IZR (den C))).
    { unfold c. f_equal. rewrite Hoff. unfold epsR, H. rewrite !minus_IZR, mult_IZR. field. lra. }
    pose proof (Z.div_mod (eps C - o) (spacing C) ltac:(lia)) as Hdm.
    pose proof (Z.mod_pos_bound (eps C - o) (spacing C) Hspa) as Hmod. fold cut in Hdm.
    assert (Hrest : (0 <= eps C - o - cut * spacing C <= spacing C)%Z) by lia.
    set (t := (eps C - o - cut * spacing C)%Z) in *.
    assert (Ht : 0 <= IZR t / IZR (den C) <= H).
    { destruct Hrest as [R0 R1]. apply IZR_le in R0, R1. unfold H. split.
      - apply Rmult_le_pos; auto. left; apply Rinv_0_lt_compat; auto.
      - apply Rmult_le_compat_r; auto. left; apply Rinv_0_lt_compat; auto. }
    assert (Hexp_le : forall x y, x <= y -> exp x <= exp y).
    { intros x y [L| ->]; [left; apply exp_increasing; auto | lra]. }
    pose proof (down_ok (WW C) (- spacing C) W_pos) as HE. rewrite neg_H in HE.
    pose proof (down_ok (WW C) t W_pos) as HE'. rewrite <- Hcc in HE'.
    pose proof (last_sum_ok H c (2 ^ guard) (WW C) (down C (WW C) (- spacing C)) (down C (WW C) t) H_pos
      ltac:(reflexivity) W_pos) as L.
    assert (L' := L ltac:(rewrite Hcc, <- exp_0; apply Hexp_le; lra)
                    ltac:(rewrite Hcc, <- exp_plus, <- exp_0; apply Hexp_le; lra)
                    HE HE' (IZR S) (offset w) (offset w') epsR cut _ _ nu nu' HSr eq_refl B B').
    rewrite plus_IZR, mult_IZR.
    destruct Hzz as [_ Hzz].
    assert ((z + z' - z * z') * IZR S * IZR S <= IZR (either S (infi (snd a)) (infi (snd b))) * IZR S)
      by (apply Rmult_le_compat_r; lra).
    fold S. apply (Rmult_le_compat_r (IZR S * IZR S)) in M; [|lra].
    lra.
  Qed.

  Hypothesis fubini : forall i j f, K f -> comp (mus i) (mus j) f = comp (mus j) (mus i) f.

  (* what the composer finds bounds delta: of laws whose steps the kinds cover *)
  Theorem checker_sound b : check C = Some b -> forall w,
    (forall k, cnt w k = nth k (counts C) 0%Z) ->
    word mus w (phi epsR) <= IZR b / IZR (2 ^ (2 * bits C)).
  Proof.
    intros Hc w Hw. unfold check in Hc.
    destruct (run _ _ _ _) as [rs|] eqn:Er; [|discriminate].
    pose proof (run_ok _ _ _ start_ok Er) as Hrs. rewrite Forall_forall in Hrs.
    destruct (get rs (fst (last C))) as [x|] eqn:Gx; [|discriminate].
    destruct (get rs (snd (last C))) as [y|] eqn:Gy; [|discriminate].
    destruct (same _ _) eqn:Es; [|discriminate]. inversion Hc; subst b; clear Hc.
    apply same_ok in Es.
    destruct (Hrs x (get_in _ _ _ Gx)) as (u & Fu & Iu & Cu).
    destruct (Hrs y (get_in _ _ _ Gy)) as (v & Fv & Iv & Cv).
    rewrite Fu, Fv, cnts_app in Es. symmetry in Es.
    rewrite (word_perm mus laws fubini w (u ++ v)); [|apply planned; auto | apply K_phi].
    replace (IZR (2 ^ (2 * bits C))) with (IZR S * IZR S).
    apply finish_ok; auto.
    rewrite <- mult_IZR. f_equal. unfold S, SS. rewrite <- Z.pow_add_r by lia. f_equal; lia.
  Qed.
End sound.
