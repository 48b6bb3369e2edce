(* The composition of scores, and the last sum (L5): what is extracted, and that it is right. *)
Require Import Reals ZArith List Lra Lia Bool.
Require Import Evr.Order Evr.Integers Evr.Masses Evr.GridLaw Evr.Product Evr.Powers Evr.Composer Evr.ComposerSound.
Require Import Evr.LowerIntegers Evr.LowerScores Evr.LowerGrid.
Import ListNotations.
Open Scope Z_scope.

(* L4.1, for the spacing n/d of the finer grid and cells of 2^b places: weights over Q *)
Fixpoint weights_from (Q step y : Z) (r : nat) : list Z :=
  match r with O => [] | Datatypes.S r' => y :: weights_from Q step (cdiv (y * step) Q) r' end.
Definition weights (k : nat) (Q n d b : Z) : list Z :=
  let step := exp_up k Q n d in
  match 2 ^ b with
  | Zpos p =>
      back (snd (Pos.iter (fun st => let '(y, out) := st in (cdiv (y * step) Q, y :: out))
                   (exp_up k Q (- (2 ^ b / 2 * n)) d, []) p))
  | _ => []
  end.

Section refute.
  Variable C : cert.             (* of its kinds only the offsets are used *)
  Variable scores : list score.  (* one for each kind *)

  Definition weightsC (a b : Z) := weights (sqs C) (QQ C) (spacing C) (den C * 2 ^ a) (a - b).
  Definition decayC (k : Z) := exp_up (sqs C) (QQ C) (k * spacing C) (den C).

  Definition sreg := (list Z * score)%type.
  Definition unit_score : sreg := (map (fun _ => 0) (kinds C), Score 0 none (Chances 0 [(SS C, SS C)]) 0).
  Definition first_scores : list sreg :=
    unit_score :: map (fun ks => (one_hot C (fst ks), snd ks)) (combine (seq 0 (length scores)) scores).
  Definition product_of (w : window) (a b : sreg) : sreg :=
    (zadd (fst a) (fst b), sc_within (QQ C) weightsC decayC w (sc_times (SS C) (QQ C) weightsC (snd a) (snd b))).
  Fixpoint run_scores (p : list (Z * Z * window)) (rs : list sreg) : option (list sreg) :=
    match p with
    | [] => Some rs
    | (i, j, w) :: p' =>
        match get rs i, get rs j with Some a, Some b => run_scores p' (rs ++ [product_of w a b]) | _, _ => None end
    end.

  Definition gained (a b : score) : Z :=
    let o := dot (counts C) (map fst (kinds C)) in
    let P := cmul (sc_coarse (QQ C) weightsC a) (sc_coarse (QQ C) weightsC b) in
    let start := Z.max ((eps C - o) / spacing C - 1) (c_first P) in
    let factor := exp_up (sqs C) (QQ C) (o - eps C + start * spacing C) (den C) in
    gains (QQ C) (decayC 1) factor (c_list (cfrom P start)) (sc_either (SS C) (t_infi a) (t_infi b) * SS C).

  Definition at_least : option Z :=
    match run_scores (prog C) first_scores with
    | None => None
    | Some rs =>
        match get rs (fst (last C)), get rs (snd (last C)) with
        | Some a, Some b => if same (zadd (fst a) (fst b)) (counts C) then Some (gained (snd a) (snd b)) else None
        | _, _ => None
        end
    end.
End refute.

Open Scope R_scope.

Lemma exp_up_any k Q n d : (0 < Q)%Z -> (0 < d)%Z -> (0 < d * 2 ^ Z.of_nat k + n)%Z ->
  IZR Q * exp (- (IZR n / IZR d)) <= IZR (exp_up k Q n d).
Proof.
  intros HQ Hd Hn. assert (HQr : 0 < IZR Q) by (apply IZR_lt; auto). assert (Hdr : 0 < IZR d) by (apply IZR_lt; auto).
  unfold exp_up. set (D := (d * 2 ^ Z.of_nat k)%Z) in *.
  assert (HD : (0 < D)%Z) by (unfold D; apply Z.mul_pos_pos; auto; apply Z.pow_pos_nonneg; lia).
  assert (HDr : IZR D = IZR d * 2 ^ k) by (unfold D; rewrite mult_IZR, two_pow; auto).
  assert (H2 : 0 < 2 ^ k) by (apply pow_lt; lra).
  apply sq_up_ok; auto. apply Rmult_le_reg_r with (IZR (D + n)); [apply IZR_lt; lia|].
  eapply Rle_trans; [|apply le_cdiv; lia]. rewrite mult_IZR, plus_IZR.
  set (t := IZR n / IZR d / 2 ^ k). assert (Ht : IZR D + IZR n = IZR D * (1 + t)) by (unfold t; rewrite HDr; field; lra).
  replace (- (IZR n / IZR d) / 2 ^ k) with (- t) by (unfold t; field; lra).
  rewrite Ht, exp_Ropp. apply IZR_lt in HD.
  assert (Hx : (1 + t) * / exp t <= 1).
  { pose proof (exp_ge t). pose proof (exp_pos t). apply Rmult_le_reg_r with (exp t); auto.
    rewrite Rmult_assoc, Rinv_l by lra. lra. }
  replace (IZR Q * / exp t * (IZR D * (1 + t))) with (IZR Q * IZR D * ((1 + t) * / exp t)) by ring.
  rewrite <- (Rmult_1_r (IZR Q * IZR D)) at 2. apply Rmult_le_compat_l; auto. apply Rmult_le_pos; lra.
Qed.

Lemma weights_ok k Q n d b : (0 < Q)%Z -> (0 < n)%Z -> (0 < d)%Z -> (0 < b)%Z -> (2 ^ b / 2 * n < d * 2 ^ Z.of_nat k)%Z ->
  Z.of_nat (length (weights k Q n d b)) = (2 ^ b)%Z /\
  weighty Q (exp (- (IZR n / IZR d))) (exp (IZR (2 ^ b / 2) * (IZR n / IZR d))) (weights k Q n d b).
Proof.
  intros HQ Hn Hd Hb Hk. unfold weights. set (step := exp_up k Q n d). set (y := exp_up k Q _ d).
  assert (HQr : 0 < IZR Q) by (apply IZR_lt; auto). assert (Hdr : 0 < IZR d) by (apply IZR_lt; auto).
  assert (Hy : IZR Q * exp (IZR (2 ^ b / 2) * (IZR n / IZR d)) <= IZR y).
  { replace (IZR (2 ^ b / 2) * (IZR n / IZR d)) with (- (IZR (- (2 ^ b / 2 * n)) / IZR d)).
    - apply exp_up_any; auto. lia.
    - rewrite opp_IZR, mult_IZR. field. lra. }
  assert (Hs : IZR Q * exp (- (IZR n / IZR d)) <= IZR step).
  { apply exp_up_any; auto. assert (0 < 2 ^ Z.of_nat k)%Z by (apply Z.pow_pos_nonneg; lia). nia. }
  set (g := exp (- (IZR n / IZR d))) in *. assert (Hg : 0 <= g) by apply nn_exp.
  assert (H2 : (0 < 2 ^ b)%Z) by (apply Z.pow_pos_nonneg; lia). destruct (2 ^ b)%Z as [|p|p] eqn:E; try lia.
  set (F := fun st : Z * list Z => _).
  assert (H : forall m y out, snd (Nat.iter m F (y, out)) = rev_append (weights_from Q step y m) out).
  { induction m; intros; [reflexivity|]. rewrite iter_inside. unfold F at 2. rewrite IHm. reflexivity. }
  rewrite Pos2Nat.inj_iter. change (nat_rect _ (y, []) (fun _ => F) (Pos.to_nat p)) with (Nat.iter (Pos.to_nat p) F (y, [])).
  rewrite H. fold (back (weights_from Q step y (Pos.to_nat p))). rewrite back_back. split.
  - enough (L : forall m y, length (weights_from Q step y m) = m) by (rewrite L; lia). induction m; intros; simpl; auto.
  - assert (Ht : 0 <= exp (IZR (Z.pos p / 2) * (IZR n / IZR d))) by apply nn_exp. revert Hy Ht.
    generalize (exp (IZR (Z.pos p / 2) * (IZR n / IZR d))). generalize y. clear - HQ HQr Hs Hg.
    induction (Pos.to_nat p); intros y t Hy Ht; simpl; auto. split; auto. apply IHn0; [|apply Rmult_le_pos; auto].
    pose proof (le_cdiv (y * step) Q HQ) as Cy. rewrite mult_IZR in Cy. apply Rmult_le_reg_r with (IZR Q); auto.
    eapply Rle_trans; [|apply Cy]. replace (IZR Q * (t * g) * IZR Q) with ((IZR Q * t) * (IZR Q * g)) by ring.
    apply Rmult_le_compat; auto; apply Rmult_le_pos; lra.
Qed.

Lemma phi_persp e p q : 0 <= p -> 0 <= q -> p - exp e * q <= persp (phi e) p q.
Proof.
  intros [Hp|<-] Hq.
  - unfold persp, phi. apply Rle_trans with (p * (1 - exp e * (q / p))); [right; field; lra|].
    apply Rmult_le_compat_l; [lra | apply Rmax_r].
  - rewrite persp_0. assert (0 <= exp e * q) by (apply Rmult_le_pos; auto). lra.
Qed.
Lemma gains_ok Q step h e : (0 < Q)%Z -> 0 <= h -> IZR Q * h <= IZR step -> forall l x factor sum, nn l -> 0 <= x ->
  IZR Q * (exp e * x) <= IZR factor -> IZR (gains Q step factor l sum) <= IZR sum + val h x l (phi e).
Proof.
  intros HQ Hh Hs. assert (HQr : 0 < IZR Q) by (apply IZR_lt; auto).
  induction l as [|[p q] l IH]; intros x factor sum Hl Hx Hf; simpl; [lra|]. inversion Hl as [|? ? Ha Hl']; subst.
  pose proof (pnn_R _ Ha) as [A B]. cbn [fst snd] in *. assert (He : 0 <= exp e * x) by (apply Rmult_le_pos; auto).
  eapply Rle_trans; [apply (IH (x * h)); auto|].
  - apply Rmult_le_pos; auto.
  - pose proof (le_cdiv (factor * step) Q HQ) as D. rewrite mult_IZR in D. apply Rmult_le_reg_r with (IZR Q); auto.
    eapply Rle_trans; [|apply D]. replace (IZR Q * (exp e * (x * h)) * IZR Q) with ((IZR Q * (exp e * x)) * (IZR Q * h)) by ring.
    apply Rmult_le_compat; auto; apply Rmult_le_pos; lra.
  - rewrite plus_IZR. enough (IZR (Z.max 0 (p - cdiv (factor * q) Q)) <= persp (phi e) (IZR p) (x * IZR q)) by lra.
    assert (Hq : 0 <= x * IZR q) by (apply Rmult_le_pos; auto).
    destruct (Z.max_spec 0 (p - cdiv (factor * q) Q)) as [[_ ->]|[_ ->]]; [|apply persp_pos; auto; apply K_phi].
    eapply Rle_trans; [|apply phi_persp; auto]. rewrite minus_IZR.
    pose proof (le_cdiv (factor * q) Q HQ) as D. rewrite mult_IZR in D.
    enough (exp e * (x * IZR q) <= IZR (cdiv (factor * q) Q)) by lra. apply Rmult_le_reg_r with (IZR Q); auto.
    eapply Rle_trans; [|apply D]. replace (exp e * (x * IZR q) * IZR Q) with ((IZR Q * (exp e * x)) * IZR q) by ring.
    apply Rmult_le_compat_r; auto.
Qed.

Section sound.
  Variable C : cert.
  Variable scores : list score.
  Variable mus : nat -> (R -> R) -> R.
  Hypothesis laws : forall k, law (mus k).
  Hypothesis fubini : forall i j f, K f -> comp (mus i) (mus j) f = comp (mus j) (mus i) f.
  Hypothesis Hbits : (0 <= bits C)%Z.
  Hypothesis Hden : (0 < den C)%Z.
  Hypothesis Hspa : (0 < spacing C)%Z.
  Hypothesis Hfar : (spacing C < den C * 2 ^ bits C)%Z.

  Let S := SS C.
  Let H := IZR (spacing C) / IZR (den C).

  Hypothesis steps : forall k X, nth_error scores k = Some X ->
    exists o X0, nth_error (kinds C) k = Some (o, X0) /\ says S H (IZR o / IZR (den C)) X (mus k).

  Let HS : (0 < S)%Z. Proof. apply S_pos; auto. Qed.
  Let HQ : (0 < QQ C)%Z. Proof. apply Q_pos; auto. Qed.
  Let Hd : 0 < IZR (den C). Proof. apply den_pos; auto. Qed.
  Let HH : 0 < H. Proof. apply H_pos; auto. Qed.

  Lemma far n : (- n < 2 * spacing C)%Z -> (0 < den C * 2 ^ Z.of_nat (sqs C) + n)%Z.
  Proof.
    unfold sqs. rewrite Z2Nat.id, Z.pow_add_r, Z.mul_assoc by lia. assert (2 <= 2 ^ 150)%Z by (apply (Z.pow_le_mono_r 2 1 150); lia).
    assert (den C * 2 ^ bits C * 2 <= den C * 2 ^ bits C * 2 ^ 150)%Z by (apply Z.mul_le_mono_nonneg_l; lia). lia.
  Qed.
  Lemma decayC_ok k : (0 <= k)%Z -> IZR (QQ C) * exp (- (IZR k * H)) <= IZR (decayC C k).
  Proof.
    intros Hk. unfold decayC. replace (IZR k * H) with (IZR (k * spacing C) / IZR (den C)).
    - apply exp_up_any; auto. apply far. nia.
    - rewrite mult_IZR. unfold H. field. lra.
  Qed.
  Lemma weightsC_ok a b : (0 <= b < a)%Z -> Z.of_nat (length (weightsC C a b)) = (2 ^ (a - b))%Z /\
    weighty (QQ C) (exp (- gs H a)) (exp (IZR (2 ^ (a - b) / 2) * gs H a)) (weightsC C a b).
  Proof.
    intros Hab. unfold weightsC. assert (H2 : (0 < 2 ^ a)%Z) by (apply Z.pow_pos_nonneg; lia).
    replace (gs H a) with (IZR (spacing C) / IZR (den C * 2 ^ a)).
    2:{ unfold gs, H. rewrite mult_IZR. assert (IZR (2 ^ a) <> 0) by (apply not_0_IZR; lia). field. split; lra. }
    assert (F : (spacing C < den C * 2 ^ Z.of_nat (sqs C))%Z) by (assert (H0 : (- - spacing C < 2 * spacing C)%Z) by lia; apply far in H0; lia).
    apply weights_ok; auto; try nia.
    assert (2 ^ (a - b) / 2 <= 2 ^ a)%Z.
    { assert (2 ^ (a - b) <= 2 ^ a)%Z by (apply Z.pow_le_mono_r; lia). assert (0 < 2 ^ (a - b))%Z by (apply Z.pow_pos_nonneg; lia).
      pose proof (Z.div_le_upper_bound (2 ^ (a - b)) 2 (2 ^ a) ltac:(lia)). lia. }
    apply Z.le_lt_trans with (2 ^ a * spacing C)%Z; [apply Z.mul_le_mono_nonneg_r; lia|].
    replace (den C * 2 ^ a * 2 ^ Z.of_nat (sqs C))%Z with (2 ^ a * (den C * 2 ^ Z.of_nat (sqs C)))%Z by ring.
    apply Z.mul_lt_mono_pos_l; lia.
  Qed.

  Definition sreg_ok (r : sreg) : Prop :=
    exists w, fst r = cnts C w /\ (forall k, In k w -> (k < length (kinds C))%nat) /\ says S H (offset C w) (snd r) (word mus w).

  Lemma says_ext o X mu mu' : (forall f, K f -> mu' f = mu f) -> says S H o X mu -> says S H o X mu'.
  Proof. intros E (A & B & D & F & V). do 4 (split; auto). intros f Kf. rewrite E; auto. Qed.

  Lemma product_of_ok w a b : sreg_ok a -> sreg_ok b -> sreg_ok (product_of C w a b).
  Proof.
    intros (u & Fa & Ia & Pa) (v & Fb & Ib & Pb). exists (u ++ v). simpl.
    split; [rewrite Fa, Fb; apply cnts_app|]. split.
    { intros k Hk. apply in_app_or in Hk. destruct Hk; auto. }
    rewrite <- offset_app by auto. apply says_ext with (comp (word mus u) (word mus v)).
    { intros f Kf. symmetry. apply word_app; auto. }
    apply within_says; auto using weightsC_ok, decayC_ok. apply times_says; auto using weightsC_ok, law_word.
  Qed.
  Lemma run_scores_ok p : forall rs rs', Forall sreg_ok rs -> run_scores C p rs = Some rs' -> Forall sreg_ok rs'.
  Proof.
    induction p as [|[[i j] w] p IH]; intros rs rs' Hrs Hr; simpl in Hr; [inversion Hr; subst; auto|].
    destruct (get rs i) as [a|] eqn:Ga; [|discriminate]. destruct (get rs j) as [b|] eqn:Gb; [|discriminate].
    apply IH in Hr; auto. apply Forall_app. split; auto. constructor; [|constructor].
    rewrite Forall_forall in Hrs. apply product_of_ok; apply Hrs; eapply get_in; eauto.
  Qed.
  Lemma first_scores_ok : Forall sreg_ok (first_scores C scores).
  Proof.
    unfold first_scores. constructor.
    - exists []. unfold unit_score. cbn [fst snd]. destruct (no_steps C Hden) as [-> E]. rewrite E. split; [auto|]. split; [simpl; tauto|].
      apply unit_says; auto.
    - apply Forall_forall. intros r Hr. apply in_map_iff in Hr. destruct Hr as ([k X] & <- & Hin).
      apply numbered in Hin. cbn [fst snd]. destruct (steps k X Hin) as (o & X0 & Hk & P).
      destruct (one_step C k o X0 Hk) as (Hkn & -> & Ho). exists [k]. cbn [fst snd].
      split; [auto|]. split; [intros j [<-|[]]; auto|]. rewrite Ho.
      apply says_ext with (mus k); auto. intros f Kf. apply word_one; auto.
  Qed.

  Let epsR := IZR (eps C) / IZR (den C).

  Lemma gained_ok a b w w' : says S H (offset C w) a (word mus w) -> says S H (offset C w') b (word mus w') -> counts C = cnts C (w ++ w') ->
    IZR (gained C a b) <= IZR S * IZR S * word mus (w ++ w') (phi epsR).
  Proof.
    intros Pa Pb Hc. pose proof (law_word mus laws w) as L. pose proof (law_word mus laws w') as L'. pose proof (K_phi epsR) as Kf.
    rewrite <- word_app by auto. unfold gained.
    destruct (coarse_ok S (QQ C) H (weightsC C) HQ weightsC_ok _ _ _ Pa) as [Na Va].
    destruct (coarse_ok S (QQ C) H (weightsC C) HQ weightsC_ok _ _ _ Pb) as [Nb Vb].
    set (Ma := sc_coarse _ _ a) in *. set (Mb := sc_coarse _ _ b) in *.
    pose proof (infi_le S H _ _ _ L Pa) as Ia. pose proof (infi_le S H _ _ _ L' Pb) as Ib.
    destruct Pa as (_ & _ & _ & Ia0 & _). destruct Pb as (_ & _ & _ & Ib0 & _).
    pose proof (comp_below S HS (word mus w) (word mus w') _ _ _ _ L L' (at_fm H _ _ Na) (at_fm H _ _ Nb) (IZR_le _ _ Ia0) (IZR_le _ _ Ib0) Va Vb _ Kf) as M.
    destruct (cmul_ok H (offset C w) (offset C w') _ _ Na Nb) as [Np Vp]. specialize (Vp _ Kf). set (P := cmul Ma Mb) in *.
    set (o := dot (counts C) (map fst (kinds C))). set (start := Z.max _ _).
    destruct (cut_ok H (offset C w + offset C w') P start Np) as (N1 & N2 & E). rewrite E in Vp.
    pose proof (at_pos H (offset C w + offset C w') _ _ N1 Kf) as P1.
    destruct (sc_either_ok S HS (t_infi a) (t_infi b) ltac:(lia) ltac:(lia)) as [_ E1].
    replace (phi epsR 0) with 1 in M by (unfold phi; rewrite Rmult_0_r, Rmax_right; lra).
    assert (Hfirst : c_first (cfrom P start) = start) by (unfold cfrom, start; simpl; lia).
    assert (Hoff : offset C w + offset C w' = IZR o / IZR (den C)) by (rewrite offset_app by auto; unfold offset; rewrite <- Hc; auto).
    eapply Rle_trans; [apply (gains_ok (QQ C) (decayC C 1) (exp (- H)) epsR HQ (nn_exp _)) with (x := pt H (offset C w + offset C w') start)|].
    - rewrite <- (Rmult_1_l H) at 1. apply decayC_ok. lia.
    - exact N2.
    - apply nn_pt.
    - replace (exp epsR * pt H (offset C w + offset C w') start) with (exp (- (IZR (o - eps C + start * spacing C) / IZR (den C)))).
      + apply exp_up_any; auto. apply far. pose proof (Z.mod_pos_bound (eps C - o) (spacing C) Hspa).
        pose proof (Z.div_mod (eps C - o) (spacing C) ltac:(lia)). assert ((eps C - o) / spacing C - 1 <= start)%Z by (unfold start; lia). nia.
      + unfold pt. rewrite <- exp_plus. f_equal. rewrite Hoff. unfold epsR, H. rewrite plus_IZR, minus_IZR, mult_IZR. field. lra.
    - unfold at_grid in Vp at 2. rewrite Hfirst in Vp. rewrite mult_IZR. fold S in E1 |- *. lra.
  Qed.

  (* what is found bounds delta from below: of laws of whose steps the scores say nothing untrue *)
  Theorem refuter_sound b : at_least C scores = Some b -> forall w, (forall k, cnt w k = nth k (counts C) 0%Z) ->
    IZR b / IZR (2 ^ (2 * bits C)) <= word mus w (phi epsR).
  Proof.
    intros Hc w Hw. unfold at_least in Hc.
    destruct (run_scores _ _ _) as [rs|] eqn:Er; [|discriminate].
    pose proof (run_scores_ok _ _ _ first_scores_ok Er) as Hrs. rewrite Forall_forall in Hrs.
    destruct (get rs (fst (last C))) as [x|] eqn:Gx; [|discriminate].
    destruct (get rs (snd (last C))) as [y|] eqn:Gy; [|discriminate].
    destruct (same _ _) eqn:Es; [|discriminate]. assert (Eb : gained C (snd x) (snd y) = b) by congruence. clear Hc. apply same_ok in Es.
    destruct (Hrs x (get_in _ _ _ Gx)) as (u & Fu & Iu & Cu). destruct (Hrs y (get_in _ _ _ Gy)) as (v & Fv & Iv & Cv).
    rewrite Fu, Fv, cnts_app in Es. symmetry in Es.
    rewrite (word_perm mus laws fubini w (u ++ v)); [|apply (planned C); auto | apply K_phi].
    replace (IZR (2 ^ (2 * bits C))) with (IZR S * IZR S).
    2:{ rewrite <- mult_IZR. f_equal. unfold S, SS. rewrite <- Z.pow_add_r by lia. f_equal; lia. }
    assert (HSr : 0 < IZR S) by (apply IZR_lt; auto). rewrite <- Eb.
    apply Rmult_le_reg_r with (IZR S * IZR S); [apply Rmult_lt_0_compat; auto|].
    unfold Rdiv. rewrite Rmult_assoc, Rinv_l by (apply Rgt_not_eq, Rmult_lt_0_compat; auto).
    rewrite Rmult_1_r, (Rmult_comm (word _ _ _)). apply gained_ok; auto.
  Qed.
End sound.
