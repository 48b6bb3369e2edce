(* What is accepted holds, for laws as functionals. *)
Require Import Reals ZArith List Bool Lra Lia Evr.Order Evr.ComposerSound Evr.Step Evr.StepSound Evr.Reader Evr.Judge.
Import ListNotations.
Open Scope R_scope.

Lemma all_show_in F ss : forall bs m s, all_show F ss bs = true -> In (m, s) ss ->
  bs = map (fun ms => bound verify F (snd ms)) ss -> shows F s (bound verify F s) = true.
Proof.
  induction ss as [|[m' s'] ss IH]; intros [|b bs] m s Ha Hi Hb; simpl in *; try tauto; try discriminate.
  apply andb_prop in Ha. destruct Ha as [A B]. inversion Hb; subst. destruct Hi as [E|Hi]; [inversion E; subst; auto | eauto].
Qed.

Lemma accepted_both t F bounds : judge verify t = Judged F bounds true -> both_directions F = true.
Proof.
  unfold judge. destruct (read t) as [F'|]; [|discriminate]. destruct (forallb _ _); [|discriminate].
  intros Hj. injection Hj as EF EB Hacc. subst F'. clear EB. apply andb_prop in Hacc. destruct Hacc as [Hacc _].
  apply andb_prop in Hacc. destruct Hacc as [_ Hacc]. exact Hacc.
Qed.

(* one section of an accepted file *)
Theorem accepted_sound (t : text) (F : file) (bounds : list (option Z)) (m : mark) (s : section) (mu : nat -> (R -> R) -> R) :
  judge verify t = Judged F bounds true -> In (m, s) (f_sections F) ->
  (forall k, law (mu k)) ->
  (forall i j f, K f -> comp (mu i) (mu j) f = comp (mu j) (mu i) f) ->
  (forall k kd, nth_error (s_kinds s) k = Some kd -> encloses (s_den s) (s_spacing s) kd (mu k)) ->
  forall w : list nat,
    (forall k, Z.of_nat (count_occ Nat.eq_dec w k) = nth k (map fst (f_steps F)) 0%Z) ->
    word mu w (phi (IZR (fst (f_epsilon F)) / IZR (snd (f_epsilon F)))) <=
      IZR (fst (f_delta F)) / IZR (snd (f_delta F)).
Proof.
  intros Hj Hin Hl Hf He w Hw. unfold judge in Hj. destruct (read t) as [F'|]; [|discriminate].
  destruct (forallb _ _); [|discriminate]. inversion Hj as [[EF EB Hacc]]; clear Hj. subst F'.
  apply andb_prop in Hacc. destruct Hacc as [Hacc Hall]. apply andb_prop in Hacc. destruct Hacc as [Hdq Hdir].
  apply Z.ltb_lt in Hdq.
  pose proof (all_show_in F _ _ m s Hall Hin eq_refl) as Hsh. unfold shows in Hsh.
  destruct (bound verify F s) as [b|] eqn:Eb; [|discriminate]. unfold bound in Eb.
  destruct (states_epsilon F s) eqn:Es; [|discriminate].
  apply andb_prop in Hsh. destruct Hsh as [Hbits Hle]. apply Z.leb_le in Hbits, Hle.
  apply andb_prop in Es. destruct Es as [Hq Hmul]. apply Z.ltb_lt in Hq. apply Z.eqb_eq in Hmul.
  assert (Hden : (0 < s_den s)%Z).
  { unfold verify in Eb. cbn [c_bits c_den c_spacing claim_of] in Eb.
    destruct (0 <=? s_bits s)%Z; [|discriminate]. destruct (Z.ltb_spec 0 (s_den s)); [auto | discriminate]. }
  pose proof (verify_sound (claim_of F s) mu b Hl Hf He Eb w Hw) as V.
  cbn [c_eps c_den c_bits claim_of] in V.
  apply IZR_lt in Hq, Hden, Hdq.
  replace (IZR (fst (f_epsilon F)) / IZR (snd (f_epsilon F))) with
    (IZR (fst (f_epsilon F) * s_den s / snd (f_epsilon F)) / IZR (s_den s)).
  2:{ apply (f_equal IZR) in Hmul. rewrite !mult_IZR in Hmul.
      apply Rmult_eq_reg_r with (IZR (s_den s) * IZR (snd (f_epsilon F))).
      - replace (IZR (fst (f_epsilon F) * s_den s / snd (f_epsilon F)) / IZR (s_den s) * (IZR (s_den s) * IZR (snd (f_epsilon F))))
          with (IZR (fst (f_epsilon F) * s_den s / snd (f_epsilon F)) * IZR (snd (f_epsilon F))) by (field; lra).
        rewrite <- Hmul. field. lra.
      - apply Rmult_integral_contrapositive_currified; lra. }
  eapply Rle_trans; [apply V|].
  assert (Hp : 0 < IZR (2 ^ (2 * s_bits s))) by (apply IZR_lt, Z.pow_pos_nonneg; lia).
  apply IZR_le in Hle. rewrite !mult_IZR in Hle.
  apply Rmult_le_reg_r with (IZR (snd (f_delta F)) * IZR (2 ^ (2 * s_bits s))); [apply Rmult_lt_0_compat; auto|].
  replace (IZR b / IZR (2 ^ (2 * s_bits s)) * (IZR (snd (f_delta F)) * IZR (2 ^ (2 * s_bits s)))) with (IZR b * IZR (snd (f_delta F))) by (field; lra).
  replace (IZR (fst (f_delta F)) / IZR (snd (f_delta F)) * (IZR (snd (f_delta F)) * IZR (2 ^ (2 * s_bits s)))) with
    (IZR (fst (f_delta F)) * IZR (2 ^ (2 * s_bits s))) by (field; lra).
  auto.
Qed.
