(* What is refuted is false, for laws as functionals. *)
Require Import Reals ZArith List Bool Lra Lia.
Require Import Evr.Order Evr.Composer Evr.ComposerSound Evr.Step Evr.StepSound Evr.Reader Evr.Laws Evr.Enclose Evr.Judge Evr.JudgeSound.
Require Import Evr.LowerIntegers Evr.LowerScores Evr.LowerGrid Evr.LowerComposer Evr.LowerStep Evr.LowerStepSound Evr.LowerJudge.
Import ListNotations.
Open Scope R_scope.

(* a file that is refuted holds one direction, in which every law is computed *)
Lemma refuted_one t F bounds : refute_text t = LowerJudged F bounds Refuted ->
  exists m s ts l b, f_sections F = [(m, s)] /\ m <> Both /\ existsb is_scores ts = false /\
  scores_of m s (f_steps F) (s_kinds s) ts = Good l /\ bounds = [Some b] /\ lower_bound F s l = Some b /\ exceeds F s (Some b) = true.
Proof.
  unfold refute_text. destruct (read_refuting t) as [[F' tests]|]; [|discriminate]. destruct (forallb _ _); [|discriminate].
  destruct (refused_law F') as [why|]; [discriminate|].
  assert (D : forall m s ts, judge_direction F' m s ts = LowerJudged F bounds Refuted -> F' = F /\ existsb is_scores ts = false /\ exists l b,
    scores_of m s (f_steps F) (s_kinds s) ts = Good l /\ bounds = [Some b] /\ lower_bound F s l = Some b /\ exceeds F s (Some b) = true).
  { intros m s ts. unfold judge_direction. destruct (first_of _ _) as [why|]; [discriminate|].
    destruct (all_effort F' <=? MOST_EFFORT)%Z; [|discriminate]. destruct (scores_of m s (f_steps F') (s_kinds s) ts) as [l|why] eqn:El; [|discriminate].
    destruct (exceeds F' s (lower_bound F' s l)) eqn:Ex; [|discriminate]. intros E.
    assert (EF : F' = F) by congruence. assert (EB : [lower_bound F' s l] = bounds) by congruence. assert (ES : said_lower F' ts = Refuted) by congruence.
    subst F' bounds. split; auto. split.
    - unfold said_lower in ES. destruct (existsb is_scores ts); [discriminate | auto].
    - destruct (lower_bound F s l) as [b|] eqn:EL; [|discriminate]. exists l, b. auto. }
  destruct (f_sections F') as [|[m s] [|? ?]] eqn:Es; [discriminate| |destruct m; discriminate].
  destruct m, tests as [|ts [|? ?]]; try discriminate; intros E; destruct (D _ _ _ E) as (<- & Hs & l & b & H).
  - exists Remove, s, ts, l, b. split; [auto|]. split; [discriminate|]. split; auto.
  - exists Add, s, ts, l, b. split; [auto|]. split; [discriminate|]. split; auto.
Qed.

Lemma scores_of_nth m s : forall steps ks ts l k X, existsb is_scores ts = false -> scores_of m s steps ks ts = Good l -> nth_error l k = Some X ->
  exists cl kd tbits thresholds values, nth_error steps k = Some cl /\ nth_error ks k = Some kd /\
  own_scores (s_den s) (s_spacing s) (match m with Add => false | _ => true end) (snd cl) kd tbits thresholds = Some values /\
  X = score_of (2 ^ s_bits s) kd 0 values.
Proof.
  induction steps as [|[c law] steps IH]; intros [|kd ks] [|t ts] l k X Ht E Hk; simpl in E; try (injection E as <-; destruct k; discriminate).
  simpl in Ht. apply orb_false_elim in Ht as [H1 H2]. destruct t as [tbits thresholds|]; [|discriminate]. unfold score_of_kind in E.
  destruct (own_scores _ _ _ _ _ _ _) as [values|] eqn:Ev; [|discriminate].
  destruct (scores_of m s steps ks ts) as [l'|] eqn:El; [|discriminate]. injection E as <-. destruct k as [|k]; simpl in Hk.
  - exists (c, law), kd, tbits, thresholds, values. repeat split; auto. congruence.
  - destruct (IH _ _ _ _ _ H2 El Hk) as (cl & kd' & R). exists cl, kd'. exact R.
Qed.

Theorem lower_bound_ok F s l b mus : lower_bound F s l = Some b -> (forall k, law (mus k)) ->
  (forall i j f, K f -> comp (mus i) (mus j) f = comp (mus j) (mus i) f) ->
  (forall k X, nth_error l k = Some (Some X) -> exists kd, nth_error (s_kinds s) k = Some kd /\
     ((0 < s_den s)%Z -> says (2 ^ s_bits s) (IZR (s_spacing s) / IZR (s_den s)) (IZR (g_off (k_grid kd)) / IZR (s_den s)) X (mus k))) ->
  forall w, (forall k, Z.of_nat (count_occ Nat.eq_dec w k) = nth k (map fst (f_steps F)) 0%Z) ->
  IZR b / IZR (2 ^ (2 * s_bits s)) <= word mus w (phi (IZR (fst (f_epsilon F)) / IZR (snd (f_epsilon F)))).
Proof.
  intros E L Fub Hl w Hw. unfold lower_bound in E.
  match type of E with (if ?c then _ else _) = _ => destruct c eqn:Ec; [|discriminate] end.
  rewrite !andb_true_iff in Ec. destruct Ec as [[[[E1 E2] E3] E4] E5]. apply Z.leb_le in E2. apply Z.ltb_lt in E3, E4, E5.
  destruct (all_some l) as [scores|] eqn:Es; [|discriminate]. rewrite <- (stated_epsilon F s E1 E3).
  match type of E with at_least ?C _ = _ => refine (refuter_sound C scores mus L Fub E2 E3 E4 E5 _ b E w Hw) end. cbn [kinds den spacing bits].
  intros k X Hk. destruct (Hl k X (all_some_nth _ _ _ _ Es Hk)) as (kd & Hkd & P).
  exists (g_off (k_grid kd)), (Integers.Glaw 0 Integers.nothing Integers.nothing 0). split; [rewrite nth_error_map, Hkd; reflexivity | apply P; auto].
Qed.

Lemma exceeds_ok F s b : (0 <= s_bits s)%Z -> exceeds F s (Some b) = true ->
  IZR (fst (f_delta F)) / IZR (snd (f_delta F)) < IZR b / IZR (2 ^ (2 * s_bits s)).
Proof.
  intros Hb E. apply andb_prop in E as [E1 E2]. apply Z.ltb_lt in E1, E2. assert (Hp : (0 < 2 ^ (2 * s_bits s))%Z) by (apply Z.pow_pos_nonneg; lia).
  apply IZR_lt in E1, E2, Hp. rewrite !mult_IZR in E2. apply Rmult_lt_reg_r with (IZR (snd (f_delta F)) * IZR (2 ^ (2 * s_bits s))); [apply Rmult_lt_0_compat; auto|].
  replace (IZR (fst (f_delta F)) / IZR (snd (f_delta F)) * (IZR (snd (f_delta F)) * IZR (2 ^ (2 * s_bits s)))) with (IZR (fst (f_delta F)) * IZR (2 ^ (2 * s_bits s))) by (field; lra).
  replace (IZR b / IZR (2 ^ (2 * s_bits s)) * (IZR (snd (f_delta F)) * IZR (2 ^ (2 * s_bits s)))) with (IZR b * IZR (snd (f_delta F))) by (field; lra). auto.
Qed.
