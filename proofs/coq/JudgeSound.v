(* What is accepted holds, for laws as functionals. *)
Require Import Reals ZArith List Bool Lra Lia.
Require Import Evr.Order Evr.ComposerSound Evr.Step Evr.StepSound Evr.Reader Evr.Laws Evr.Enclose Evr.Judge.
Import ListNotations.
Open Scope R_scope.

(* ---------- What an answer says of the file ---------- *)

Lemma judged t F bounds w : judge_text t = Judged F bounds w -> (forall why, w <> Refused why) ->
  refused F = None /\ w = said F /\ (0 < snd (f_delta F))%Z /\
  exists ss, fill own_values (f_steps F) (f_sections F) = Good ss /\ all_show F ss (map (fun ms => bound verify F (snd ms)) ss) = true.
Proof.
  unfold judge_text, judge. destruct (read t) as [F'|]; [|discriminate]. destruct (forallb _ _); [|discriminate].
  destruct (refused F') as [why|] eqn:Er. { intros E H. injection E as <- <- <-. exfalso. eapply H. reflexivity. }
  destruct (all_effort F' <=? MOST_EFFORT)%Z; [|discriminate].
  destruct (fill own_values (f_steps F') (f_sections F')) as [ss|why] eqn:Ef.
  2:{ intros E H. injection E as <- <- <-. exfalso. eapply H. reflexivity. }
  intros E H. remember (map (fun ms => bound verify F' (snd ms)) ss) as bs eqn:Eb.
  destruct ((0 <? snd (f_delta F'))%Z && all_show F' ss bs) eqn:Ea.
  2:{ assert (EF : Refused NotShown = w) by congruence. exfalso. eapply H. symmetry. exact EF. }
  assert (EF : F' = F) by congruence. assert (EW : said F' = w) by congruence. subst F' w. apply andb_prop in Ea as [Hd Ha].
  split; auto. split; auto. split; [apply Z.ltb_lt; auto|]. exists ss. rewrite <- Eb. auto.
Qed.

Lemma first_of_none {A} (f : A -> option reason) l a : first_of f l = None -> In a l -> f a = None.
Proof.
  induction l as [|b l IH]; simpl; [tauto|]. destruct (f b) eqn:E; [discriminate|]. intros H [->|H']; auto.
Qed.
Lemma refused_both F : refused F = None -> both_directions F = true.
Proof. unfold refused. destruct (refused_law F); [discriminate|]. destruct (both_directions F); [auto|discriminate]. Qed.
Lemma refused_kinds F m s k cl kd : refused F = None -> In (m, s) (f_sections F) -> nth_error (f_steps F) k = Some cl ->
  nth_error (s_kinds s) k = Some kd -> refused_kind m (snd cl) kd = None.
Proof.
  unfold refused. destruct (refused_law F); [discriminate|]. destruct (both_directions F); [|discriminate].
  intros H Hin Hs Hk. pose proof (first_of_none _ _ _ H Hin) as H1. unfold refused_section in H1. cbn [fst snd] in H1.
  apply (first_of_none _ _ (cl, kd) H1). revert k Hs Hk. generalize (f_steps F) (s_kinds s).
  induction l as [|c l IH]; intros [|kd' ks] [|k] Hs Hk; simpl in *; try discriminate; [left; congruence | right; eauto].
Qed.
(* what is not listed in a section for both directions is a law of rate 1 *)
Lemma both_rate m law kd : refused_kind m law kd = None -> k_source kd = Own -> exists o, read_own law = Some o /\ (m = Both -> o_a o = o_b o).
Proof.
  unfold refused_kind. intros H E. rewrite E in H. destruct (own_law law); [|discriminate].
  destruct (read_own law) as [o|]; [|discriminate]. exists o. split; auto. intros ->. destruct (Z.eqb_spec (o_a o) (o_b o)); [auto|discriminate].
Qed.
Lemma proved_own F : said F = Proved -> forall m s k kd, In (m, s) (f_sections F) -> nth_error (s_kinds s) k = Some kd -> k_source kd = Own.
Proof.
  unfold said. destruct (existsb _ _) eqn:E; [discriminate|]. intros _ m s k kd Hin Hk.
  destruct (k_source kd) eqn:Es; auto; exfalso; rewrite <- not_true_iff_false in E; apply E; apply existsb_exists; exists (m, s); (split; [auto|]);
    apply existsb_exists; exists kd; (split; [eapply nth_error_In; eauto|]); unfold is_listed; rewrite Es; reflexivity.
Qed.
Lemma proved_relation F : said F = Proved -> relation_of (f_relation F) = Some AddOrRemove \/ relation_of (f_relation F) = Some ZeroOut.
Proof. unfold said. destruct (existsb _ _); [discriminate|]. destruct (relation_of (f_relation F)) as [[]|]; try discriminate; auto. Qed.

(* ---------- What was filled in ---------- *)

Lemma filled compute steps : forall ss ss' m s, fill compute steps ss = Good ss' -> In (m, s) ss ->
  exists s', In (m, s') ss' /\ s_den s' = s_den s /\ s_spacing s' = s_spacing s /\ fill_kinds compute m s steps (s_kinds s) = Good (s_kinds s').
Proof.
  induction ss as [|[m0 s0] ss IH]; intros ss' m s E Hin; simpl in *; [tauto|].
  destruct (fill_kinds compute m0 s0 steps (s_kinds s0)) as [ks|] eqn:Ek; [|discriminate].
  destruct (fill compute steps ss) as [l|] eqn:El; [|discriminate]. injection E as <-. destruct Hin as [H|H].
  - injection H as -> ->. eexists. split; [left; reflexivity|]. auto.
  - destruct (IH _ _ _ eq_refl H) as (s' & H1 & H2). exists s'. split; [right; auto | auto].
Qed.
Lemma filled_kind compute m s : forall steps ks ks' k kd', fill_kinds compute m s steps ks = Good ks' -> nth_error ks' k = Some kd' ->
  exists cl kd, nth_error steps k = Some cl /\ nth_error ks k = Some kd /\ fill_kind compute m s (snd cl) kd = Good kd'.
Proof.
  induction steps as [|[c law] steps IH]; intros [|kd ks] ks' k kd' E Hk; simpl in E.
  1,2,3: injection E as <-; destruct k; discriminate.
  destruct (fill_kind compute m s law kd) as [kd1|] eqn:E1; [|discriminate].
  destruct (fill_kinds compute m s steps ks) as [l|] eqn:E2; [|discriminate]. injection E as <-. destruct k as [|k]; simpl in *.
  - injection Hk as <-. exists (c, law), kd. auto.
  - eauto.
Qed.

(* ---------- One section ---------- *)

Lemma all_show_in F ss : forall bs m s, all_show F ss bs = true -> In (m, s) ss ->
  bs = map (fun ms => bound verify F (snd ms)) ss -> shows F s (bound verify F s) = true.
Proof.
  induction ss as [|[m' s'] ss IH]; intros [|b bs] m s Ha Hi Hb; simpl in *; try tauto; try discriminate.
  apply andb_prop in Ha. destruct Ha as [A B]. inversion Hb; subst. destruct Hi as [E|Hi]; [inversion E; subst; auto | eauto].
Qed.

Lemma stated_epsilon F s : states_epsilon F s = true -> (0 < s_den s)%Z ->
  IZR (fst (f_epsilon F) * s_den s / snd (f_epsilon F)) / IZR (s_den s) = IZR (fst (f_epsilon F)) / IZR (snd (f_epsilon F)).
Proof.
  intros Es Hden. apply andb_prop in Es. destruct Es as [Hq Hmul]. apply Z.ltb_lt in Hq. apply Z.eqb_eq in Hmul.
  apply IZR_lt in Hq, Hden. apply (f_equal IZR) in Hmul. rewrite !mult_IZR in Hmul.
  apply Rmult_eq_reg_r with (IZR (s_den s) * IZR (snd (f_epsilon F))).
  - replace (IZR (fst (f_epsilon F) * s_den s / snd (f_epsilon F)) / IZR (s_den s) * (IZR (s_den s) * IZR (snd (f_epsilon F))))
      with (IZR (fst (f_epsilon F) * s_den s / snd (f_epsilon F)) * IZR (snd (f_epsilon F))) by (field; lra).
    rewrite <- Hmul. field. lra.
  - apply Rmult_integral_contrapositive_currified; lra.
Qed.

Theorem section_sound (F : file) (ss : list (mark * section)) (m : mark) (s : section) (mu : nat -> (R -> R) -> R) :
  (0 < snd (f_delta F))%Z -> all_show F ss (map (fun ms => bound verify F (snd ms)) ss) = true -> In (m, s) ss ->
  (forall k, law (mu k)) ->
  (forall i j f, K f -> comp (mu i) (mu j) f = comp (mu j) (mu i) f) ->
  (forall k kd, nth_error (s_kinds s) k = Some kd -> encloses (s_den s) (s_spacing s) kd (mu k)) ->
  forall w : list nat,
    (forall k, Z.of_nat (count_occ Nat.eq_dec w k) = nth k (map fst (f_steps F)) 0%Z) ->
    word mu w (phi (IZR (fst (f_epsilon F)) / IZR (snd (f_epsilon F)))) <=
      IZR (fst (f_delta F)) / IZR (snd (f_delta F)).
Proof.
  intros Hdq Hall Hin Hl Hf He w Hw.
  pose proof (all_show_in F _ _ m s Hall Hin eq_refl) as Hsh. unfold shows in Hsh.
  destruct (bound verify F s) as [b|] eqn:Eb; [|discriminate]. unfold bound in Eb.
  destruct (states_epsilon F s) eqn:Es; [|discriminate].
  apply andb_prop in Hsh. destruct Hsh as [Hbits Hle]. apply Z.leb_le in Hbits, Hle.
  assert (Hden : (0 < s_den s)%Z).
  { unfold verify in Eb. cbn [c_bits c_den c_spacing claim_of] in Eb.
    destruct (0 <=? s_bits s)%Z; [|discriminate]. destruct (Z.ltb_spec 0 (s_den s)); [auto | discriminate]. }
  pose proof (verify_sound (claim_of F s) mu b Hl Hf He Eb w Hw) as V.
  cbn [c_eps c_den c_bits claim_of] in V.
  rewrite <- (stated_epsilon F s Es Hden).
  apply IZR_lt in Hdq.
  eapply Rle_trans; [apply V|].
  assert (Hp : 0 < IZR (2 ^ (2 * s_bits s))) by (apply IZR_lt, Z.pow_pos_nonneg; lia).
  apply IZR_le in Hle. rewrite !mult_IZR in Hle.
  apply Rmult_le_reg_r with (IZR (snd (f_delta F)) * IZR (2 ^ (2 * s_bits s))); [apply Rmult_lt_0_compat; auto|].
  replace (IZR b / IZR (2 ^ (2 * s_bits s)) * (IZR (snd (f_delta F)) * IZR (2 ^ (2 * s_bits s)))) with (IZR b * IZR (snd (f_delta F))) by (field; lra).
  replace (IZR (fst (f_delta F)) / IZR (snd (f_delta F)) * (IZR (snd (f_delta F)) * IZR (2 ^ (2 * s_bits s)))) with
    (IZR (fst (f_delta F)) * IZR (2 ^ (2 * s_bits s))) by (field; lra).
  auto.
Qed.
