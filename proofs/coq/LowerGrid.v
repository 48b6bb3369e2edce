(* L4: coarsening, windows and products of scores. *)
Require Import Reals ZArith List Lra Lia.
Require Import Evr.Order Evr.Integers Evr.Masses Evr.GridLaw Evr.Product Evr.Powers Evr.LowerIntegers Evr.LowerScores.
Import ListNotations.
Open Scope R_scope.

(* ---------- L4.1 ---------- *)

(* w: weights of places y, y g, y g^2, ..., over Q *)
Fixpoint weighty (Q : Z) (g y : R) (w : list Z) : Prop :=
  match w with [] => True | u :: w' => IZR Q * y <= IZR u /\ weighty Q g (y * g) w' end.

Fixpoint merged_r (fuel : list (Z * Z)) (Q : Z) (w : list Z) (l : list (Z * Z)) : list (Z * Z) :=
  match l, fuel with
  | _ :: _, _ :: fuel' =>
      let '(b, r) := split_like w l in (zsum (map fst b), cdiv (dot (map snd b) w) Q) :: merged_r fuel' Q w r
  | _, _ => []
  end.
Lemma merged_e Q w : forall fuel l, merged fuel Q w l [] = merged_r fuel Q w l.
Proof.
  enough (H : forall fuel l acc, merged fuel Q w l acc = rev_append acc (merged_r fuel Q w l)) by (intros; apply H).
  induction fuel as [|z fuel IH]; intros [|a l] acc; simpl; try reflexivity. rewrite split_e. destruct (split_like w (a :: l)) as [b r].
  rewrite IH, ps_e, qs_e, zsum_e, dot_e. reflexivity.
Qed.

Section cells.
  Variables (Q : Z) (g : R).
  Hypotheses (HQ : (0 < Q)%Z) (Hg : 0 <= g).
  Let HQr : 0 < IZR Q.
  Proof. apply IZR_lt; auto. Qed.

  Lemma sums_nonneg b w y : nn b -> weighty Q g y w -> 0 <= y -> (0 <= zsum (map fst b))%Z /\ (0 <= dot (map snd b) w)%Z.
  Proof.
    intros Hb. revert w y. induction Hb as [|a b [A B] _ IH]; intros [|u w] y Hw Hy; simpl; split; try lia.
    - destruct (IH [] y I Hy). lia.
    - destruct Hw as [_ Hw]. destruct (IH w _ Hw ltac:(apply Rmult_le_pos; auto)). lia.
    - destruct Hw as [U Hw]. destruct (IH w _ Hw ltac:(apply Rmult_le_pos; auto)).
      assert (0 <= u)%Z by (apply le_IZR; eapply Rle_trans; [|apply U]; apply Rmult_le_pos; lra). nia.
  Qed.

  Lemma cell_ok f : K f -> forall b w y x, nn b -> weighty Q g y w -> 0 <= y -> 0 <= x -> (length b <= length w)%nat ->
    persp f (IZR (zsum (map fst b))) (x * (IZR (dot (map snd b) w) / IZR Q)) <= val g (x * y) b f.
  Proof.
    intros Kf. induction b as [|a b IH]; intros [|u w] y x Hb Hw Hy Hx Hl; simpl in *; try lia; try (rewrite persp_0; lra).
    inversion Hb as [|? ? Ha Hb']; subst. destruct Hw as [U Hw]. destruct (sums_nonneg b w _ Hb' Hw ltac:(apply Rmult_le_pos; auto)) as [P1 P2].
    pose proof (pnn_R _ Ha) as [A B]. apply IZR_le in P1, P2. rewrite !plus_IZR, mult_IZR.
    assert (HI : 0 < / IZR Q) by (apply Rinv_0_lt_compat; auto).
    assert (HU : 0 <= IZR u) by (eapply Rle_trans; [|apply U]; apply Rmult_le_pos; lra).
    replace (x * ((IZR (snd a) * IZR u + IZR (dot (map snd b) w)) / IZR Q))
      with (x * (IZR (snd a) * IZR u / IZR Q) + x * (IZR (dot (map snd b) w) / IZR Q)) by (field; lra).
    eapply Rle_trans; [apply persp_merge; auto; repeat apply Rmult_le_pos; lra|]. apply Rplus_le_compat.
    - apply persp_mono; auto; [lra|]. split; [repeat apply Rmult_le_pos; auto|].
      rewrite Rmult_assoc. apply Rmult_le_compat_l; auto. replace (y * IZR (snd a)) with (IZR (snd a) * (IZR Q * y) / IZR Q) by (field; lra).
      apply Rmult_le_compat_r; [lra|]. apply Rmult_le_compat_l; auto.
    - replace (x * y * g) with (x * (y * g)) by ring. apply IH; auto; [apply Rmult_le_pos; auto | lia].
  Qed.

  Lemma merged_ok f w y : K f -> weighty Q g y w -> 0 <= y -> forall fuel l x, nn l -> 0 <= x ->
    nn (merged_r fuel Q w l) /\ val (g ^ length w) x (merged_r fuel Q w l) f <= val g (x * y) l f.
  Proof.
    intros Kf Hw Hy. induction fuel as [|z fuel IH]; intros l x Hl Hx.
    - destruct l as [|a l]; (split; [constructor|]); [simpl; lra|]. apply (val_pos g Hg); auto. apply Rmult_le_pos; auto.
    - destruct l as [|a l]; [simpl; split; [constructor | lra]|]. cbn [merged_r].
      destruct (split_like w (a :: l)) as [b r] eqn:E. destruct (split_like_spec _ _ _ _ E) as (El & Lb & Lr). rewrite El in Hl |- *.
      apply nn_app in Hl as [Hb Hr]. destruct (sums_nonneg b w y Hb Hw Hy) as [P1 P2].
      assert (HG : 0 <= g ^ length w) by (apply pow_le; auto).
      destruct (IH r (x * g ^ length w) Hr ltac:(apply Rmult_le_pos; auto)) as [N1 N2]. destruct (cdiv_pos_le _ Q HQ P2) as [C1 C2].
      split; [constructor; [split; auto | exact N1]|]. cbn [val fst snd]. rewrite val_app. apply Rplus_le_compat.
      + eapply Rle_trans; [|apply cell_ok with (w := w); auto]. apply IZR_le in P1, P2. apply persp_mono; auto; [lra|].
        split; [apply Rmult_le_pos; auto; apply Rmult_le_pos; [auto | left; apply Rinv_0_lt_compat; auto]|].
        apply Rmult_le_compat_l; auto. apply Rmult_le_reg_r with (IZR Q); auto. unfold Rdiv. rewrite Rmult_assoc, Rinv_l; lra.
      + eapply Rle_trans; [apply N2|]. destruct r as [|c r]; [simpl; lra|]. rewrite Lr by discriminate.
        replace (x * g ^ length w * y) with (x * y * g ^ length w) by ring. lra.
  Qed.
End cells.

Lemma nearest_ok h o Q size w M : (0 < Q)%Z -> (0 < size)%Z -> Z.of_nat (length w) = size ->
  weighty Q (exp (- h)) (exp (IZR (size / 2) * h)) w -> cnn M -> cnn (nearest Q size w M) /\
  forall f, K f -> at_grid (IZR size * h) o (nearest Q size w M) f <= at_grid h o M f.
Proof.
  intros HQ Hs Hlen Hw HM. unfold nearest. destruct (c_list M) as [|a0 l0] eqn:EM.
  { split; auto. intros f Kf. unfold at_grid. rewrite EM. simpl. lra. }
  rewrite <- EM. set (low := ((c_first M + size / 2) / size)%Z).
  assert (Hk : (0 <= c_first M + size / 2 - low * size)%Z).
  { unfold low. pose proof (Z.mul_div_le (c_first M + size / 2) size Hs). lia. }
  set (l := zeros (0, 0)%Z (c_first M + size / 2 - low * size) (c_list M)). assert (Hl : nn l) by (apply nn_zeros; auto).
  rewrite merged_e. split.
  - apply (merged_ok Q (exp (- h)) HQ (nn_exp _) (fun _ => 0) w _ (K_const 0 ltac:(lra)) Hw (nn_exp _) l l 0 Hl ltac:(lra)).
  - intros f Kf. unfold at_grid. cbn [c_first c_list].
    destruct (merged_ok Q (exp (- h)) HQ (nn_exp _) f w _ Kf Hw (nn_exp _) l l (pt (IZR size * h) o low) Hl (nn_pt _ _ _)) as [_ V].
    replace (exp (- (IZR size * h))) with (exp (- h) ^ length w).
    2:{ rewrite exp_pow. f_equal. rewrite INR_IZR_INZ, Hlen. ring. }
    eapply Rle_trans; [apply V|]. unfold l. replace (pt (IZR size * h) o low * exp (IZR (size / 2) * h)) with (pt h o (low * size - size / 2)).
    2:{ unfold pt. rewrite <- exp_plus. f_equal. rewrite minus_IZR, mult_IZR. ring. }
    rewrite val_zeros by auto. replace (low * size - size / 2 + (c_first M + size / 2 - low * size))%Z with (c_first M) by lia. lra.
Qed.

(* ---------- L4.2 ---------- *)

Definition horner (Q step : Z) : list Z -> Z := fold_right (fun q kept => cdiv ((q * Q + kept) * step) Q) 0%Z.
Lemma horner_ok Q step g f : (0 < Q)%Z -> 0 <= g -> IZR Q * g <= IZR step -> K f -> forall l x, nn l -> 0 <= x ->
  (0 <= zsum (map fst l))%Z /\ (0 <= horner Q step (map snd l))%Z /\
  persp f (IZR (zsum (map fst l))) (x * (IZR (horner Q step (map snd l)) / IZR Q)) <= val g (x * g) l f.
Proof.
  intros HQ Hg Hs Kf. assert (HQr : 0 < IZR Q) by (apply IZR_lt; auto). assert (HI : 0 < / IZR Q) by (apply Rinv_0_lt_compat; auto).
  induction l as [|a l IH]; intros x Hl Hx; simpl; [repeat split; try lia; rewrite persp_0; lra|].
  inversion Hl as [|? ? Ha Hl']; subst. destruct (IH (x * g) Hl' ltac:(apply Rmult_le_pos; auto)) as (P1 & P2 & V).
  pose proof (pnn_R _ Ha) as [A B]. destruct Ha as [A' B']. set (k := horner Q step (map snd l)) in *.
  assert (S0 : (0 <= step)%Z) by (apply le_IZR; eapply Rle_trans; [|apply Hs]; apply Rmult_le_pos; lra).
  destruct (cdiv_pos_le ((snd a * Q + k) * step) Q HQ ltac:(apply Z.mul_nonneg_nonneg; nia)) as [C1 C2].
  split; [lia|]. split; [auto|]. rewrite plus_IZR. rewrite mult_IZR, plus_IZR, mult_IZR in C2. apply IZR_le in P1, P2.
  assert (C3 : g * IZR (snd a) + g * (IZR k / IZR Q) <= IZR (cdiv ((snd a * Q + k) * step) Q) / IZR Q).
  { apply Rmult_le_reg_r with (IZR Q * IZR Q); [apply Rmult_lt_0_compat; auto|].
    replace ((g * IZR (snd a) + g * (IZR k / IZR Q)) * (IZR Q * IZR Q)) with ((IZR (snd a) * IZR Q + IZR k) * (IZR Q * g)) by (field; lra).
    replace (IZR (cdiv ((snd a * Q + k) * step) Q) / IZR Q * (IZR Q * IZR Q)) with (IZR Q * IZR (cdiv ((snd a * Q + k) * step) Q)) by (field; lra).
    eapply Rle_trans; [|apply C2]. apply Rmult_le_compat_l; auto. apply Rplus_le_le_0_compat; auto. apply Rmult_le_pos; lra. }
  eapply Rle_trans.
  - apply (persp_mono f _ (IZR (fst a) + IZR (zsum (map fst l))) _ (x * g * IZR (snd a) + x * g * (IZR k / IZR Q)) Kf).
    + split; [lra | apply Rle_refl].
    + split; [apply Rplus_le_le_0_compat; repeat apply Rmult_le_pos; lra|].
      replace (x * g * IZR (snd a) + x * g * (IZR k / IZR Q)) with (x * (g * IZR (snd a) + g * (IZR k / IZR Q))) by ring.
      apply Rmult_le_compat_l; auto.
  - eapply Rle_trans; [apply persp_merge; auto; repeat apply Rmult_le_pos; lra|]. apply Rplus_le_compat_l. exact V.
Qed.

Section grid.
  Variables (S Q : Z) (H : R).
  Variable weights : Z -> Z -> list Z.
  Variable decay : Z -> Z.
  Hypotheses (HS : (0 < S)%Z) (HQ : (0 < Q)%Z) (HH : 0 < H).
  Hypothesis weights_ok : forall a b, (0 <= b < a)%Z ->
    Z.of_nat (length (weights a b)) = (2 ^ (a - b))%Z /\
    weighty Q (exp (- gs H a)) (exp (IZR (2 ^ (a - b) / 2) * gs H a)) (weights a b).
  Hypothesis decay_ok : forall k, (0 <= k)%Z -> IZR Q * exp (- (IZR k * H)) <= IZR (decay k).

  Let s := IZR S.
  Let Hs : 0 < s. Proof. apply (IZR_lt 0); auto. Qed.
  Let HQr : 0 < IZR Q. Proof. apply (IZR_lt 0); auto. Qed.

  Lemma window_ok o floor top M : cnn M -> cnn (cut Q decay floor top M) /\
    forall f, K f -> at_grid H o (cut Q decay floor top M) f <= at_grid H o M f.
  Proof.
    intros HM. unfold cut. set (inside := cfrom M floor). set (above := cfrom inside (top + 1)).
    destruct (cut_ok H o M floor HM) as (U1 & U2 & E1). fold inside in U2, E1.
    destruct (cut_ok H o inside (top + 1) U2) as (U3 & U4 & E2). fold above in U4, E2.
    rewrite zsum_e, ps_e, qs_e.
    assert (Eh : fold_left (fun kept q => cdiv ((q * Q + kept) * decay 1) Q) (back (map snd (c_list above))) 0%Z = horner Q (decay 1) (map snd (c_list above))).
    { unfold back. rewrite rev_append_rev, app_nil_r. unfold horner. rewrite <- fold_left_rev_right, rev_involutive. reflexivity. }
    rewrite Eh. clear Eh. set (k := horner _ _ _).
    assert (D1 : IZR Q * exp (- H) <= IZR (decay 1)) by (rewrite <- (Rmult_1_l H) at 1; apply decay_ok; lia).
    assert (Ha : (top + 1 <= c_first above)%Z) by (unfold above, cfrom; simpl; lia).
    pose proof (decay_ok (c_first above - top - 1) ltac:(lia)) as Dn. set (dn := decay (c_first above - top - 1)) in *.
    set (e := exp (- (IZR (c_first above - top - 1) * H))) in *.
    pose proof (horner_ok Q (decay 1) (exp (- H))) as Hk.
    destruct (Hk (fun _ => 0) HQ (nn_exp _) D1 (K_const 0 ltac:(lra)) (c_list above) 0 U4 ltac:(lra)) as (P1 & P2 & _). fold k in P2.
    assert (N : cnn (Chances top [(zsum (map fst (c_list above)), cdiv (k * dn) (Q * Q))])).
    { constructor; [|constructor]. split; simpl; auto. apply cdiv_pos_le; [nia|]. apply Z.mul_nonneg_nonneg; auto.
      apply le_IZR. eapply Rle_trans; [|apply Dn]. apply Rmult_le_pos; [lra | apply nn_exp]. }
    destruct (cadd_ok H o _ _ U3 N) as [N1 V1]. split; auto. intros f Kf.
    eapply Rle_trans; [apply V1; auto|]. rewrite E1, E2. pose proof (at_pos H o _ f U1 Kf).
    enough (at_grid H o (Chances top [(zsum (map fst (c_list above)), cdiv (k * dn) (Q * Q))]) f <= at_grid H o above f) by lra.
    set (x := pt H o top * e). assert (Hx : 0 <= x) by (apply Rmult_le_pos; [apply nn_pt | apply nn_exp]).
    destruct (Hk f HQ (nn_exp _) D1 Kf (c_list above) x U4 Hx) as (_ & _ & V). fold k in V.
    unfold at_grid at 1. cbn [c_first c_list val fst snd]. rewrite Rplus_0_r. unfold at_grid.
    replace (pt H o (c_first above)) with (x * exp (- H)).
    2:{ unfold x, pt, e. rewrite <- !exp_plus. f_equal. rewrite !minus_IZR. ring. }
    eapply Rle_trans; [|apply V]. apply IZR_le in P1, P2. apply persp_mono; auto; [lra|].
    assert (HI : 0 < / IZR Q) by (apply Rinv_0_lt_compat; auto). split; [apply Rmult_le_pos; [auto|]; apply Rmult_le_pos; lra|].
    pose proof (le_cdiv (k * dn) (Q * Q) ltac:(nia)) as C. rewrite !mult_IZR in C. unfold x. rewrite Rmult_assoc.
    apply Rmult_le_compat_l; [apply nn_pt|]. apply Rmult_le_reg_r with (IZR Q * IZR Q); [apply Rmult_lt_0_compat; auto|].
    replace (e * (IZR k / IZR Q) * (IZR Q * IZR Q)) with (IZR k * (IZR Q * e)) by (field; lra).
    eapply Rle_trans; [|apply C]. apply Rmult_le_compat_l; auto.
  Qed.

  (* ---------- L2 (i), with infinite losses ---------- *)

  (* The score says at most what the step does. *)
  Definition says (o : R) (X : score) (mu : (R -> R) -> R) : Prop :=
    (0 <= t_halv X)%Z /\ cnn (t_fine X) /\ cnn (t_coarse X) /\ (0 <= t_infi X)%Z /\
    forall f, K f -> at_grid (gs H (t_halv X)) o (t_fine X) f + at_grid H o (t_coarse X) f + IZR (t_infi X) * f 0 <= IZR S * mu f.

  Lemma gs0 : gs H 0 = H.
  Proof. unfold gs. simpl. field. Qed.

  Lemma sc_grid_ok a b o M : (0 <= a)%Z -> (0 <= b)%Z -> cnn M -> cnn (sc_grid Q weights a b M) /\
    forall f, K f -> at_grid (gs H (Z.min a b)) o (sc_grid Q weights a b M) f <= at_grid (gs H a) o M f.
  Proof.
    intros Ha Hb HM. unfold sc_grid. destruct (Z.leb_spec a b).
    - rewrite Z.min_l by lia. split; auto. intros; lra.
    - rewrite Z.min_r by lia. destruct (weights_ok a b ltac:(lia)) as [W1 W2].
      destruct (nearest_ok (gs H a) o Q (2 ^ (a - b)) (weights a b) M HQ ltac:(apply Z.pow_pos_nonneg; lia) W1 W2 HM) as [N V]. split; auto.
      replace (IZR (2 ^ (a - b)) * gs H a) with (gs H b) in V; auto.
      unfold gs. replace (2 ^ a)%Z with (2 ^ (a - b) * 2 ^ b)%Z.
      2:{ rewrite <- Z.pow_add_r by lia. f_equal; lia. }
      rewrite mult_IZR. field. split; apply not_0_IZR; apply Z.pow_nonzero; lia.
  Qed.
  Lemma on_coarse_ok o X : (0 <= t_halv X)%Z -> cnn (t_fine X) -> cnn (sc_on_coarse Q weights X) /\
    forall f, K f -> at_grid H o (sc_on_coarse Q weights X) f <= at_grid (gs H (t_halv X)) o (t_fine X) f.
  Proof.
    intros Ha HM. destruct (sc_grid_ok (t_halv X) 0 o _ Ha ltac:(lia) HM) as [N V]. rewrite Z.min_r, gs0 in V by lia. auto.
  Qed.
  Lemma coarse_ok o X mu : says o X mu -> cnn (sc_coarse Q weights X) /\
    forall f, K f -> at_grid H o (sc_coarse Q weights X) f + IZR (t_infi X) * f 0 <= IZR S * mu f.
  Proof.
    intros (Ha & NF & NC & Hi & V). destruct (on_coarse_ok o X Ha NF) as [NT VT]. destruct (cadd_ok H o _ _ NC NT) as [N W].
    split; auto. intros f Kf. specialize (V f Kf). specialize (VT f Kf). specialize (W f Kf). unfold sc_coarse. lra.
  Qed.
  Lemma sc_at_ok o X mu b : (0 <= b)%Z -> says o X mu -> says o (sc_at Q weights b X) mu /\ t_halv (sc_at Q weights b X) = Z.min (t_halv X) b.
  Proof.
    intros Hb P. pose proof P as (Ha & NF & NC & Hi & V). unfold sc_at. destruct (Z.leb_spec (t_halv X) b); [split; [auto | lia]|].
    destruct (Z.eqb_spec b 0); simpl; (split; [|lia]).
    - destruct (coarse_ok _ _ _ P) as [N W]. split; [simpl; lia|]. split; [constructor|]. split; auto. split; auto. simpl.
      intros f Kf. specialize (W f Kf). unfold at_grid at 1. simpl. lra.
    - destruct (sc_grid_ok _ b o _ Ha Hb NF) as [N W]. rewrite Z.min_r in W by lia. split; [simpl; lia|]. split; auto. split; auto. split; auto. simpl.
      intros f Kf. specialize (V f Kf). specialize (W f Kf). lra.
  Qed.

  Lemma infi_le o X mu : law mu -> says o X mu -> (t_infi X <= S)%Z.
  Proof.
    intros L (_ & NF & NC & _ & V). specialize (V _ (K_const 1 ltac:(lra))). cbv beta in V. rewrite (law_one _ L) in V.
    pose proof (at_pos (gs H (t_halv X)) o _ _ NF (K_const 1 ltac:(lra))). pose proof (at_pos H o _ _ NC (K_const 1 ltac:(lra))).
    apply le_IZR. lra.
  Qed.
  Lemma sc_either_ok a b : (0 <= a <= S)%Z -> (0 <= b <= S)%Z -> (0 <= sc_either S a b)%Z /\
    s * IZR (sc_either S a b) <= s * IZR a + s * IZR b - IZR a * IZR b.
  Proof.
    intros Ha Hb. unfold sc_either. split.
    - assert (cdiv (a * b) S <= a)%Z by (apply cdiv_le; auto; nia). lia.
    - pose proof (le_cdiv (a * b) S HS) as C. rewrite mult_IZR in C. fold s in C. rewrite minus_IZR, plus_IZR. lra.
  Qed.

  Lemma K_minus f c : K f -> (forall x, 0 <= x -> c <= f x) -> K (fun x => f x - c).
  Proof.
    intros [p d v] Hc. constructor; intros.
    - specialize (Hc x H0). lra. - specialize (d x y H0 H1). lra. - specialize (v x y t H0 H1 H2). lra.
  Qed.
  (* lists n, n' and infinite losses z, z', in units of 1/s, below mu and mu' *)
  Lemma comp_below mu mu' n n' z z' : law mu -> law mu' -> fm n -> fm n' -> 0 <= z -> 0 <= z' ->
    (forall f, K f -> n f + z * f 0 <= s * mu f) -> (forall f, K f -> n' f + z' * f 0 <= s * mu' f) ->
    forall f, K f -> comp n n' f + (s * z + s * z' - z * z') * f 0 <= s * s * comp mu mu' f.
  Proof.
    intros L L' F F' Hz Hz' A A' f Kf. unfold comp.
    set (g := fun x => mu' (fun y => f (x * y))). assert (Kg : K g) by (apply K_under; auto).
    assert (F0 : 0 <= f 0) by (apply (K_pos _ Kf); lra).
    assert (G0 : g 0 = f 0).
    { unfold g. transitivity (mu' (fun _ => f 0)).
      - apply law_ext; auto; [apply (K_inner f 0 Kf); lra | apply K_const; auto|]. intros; f_equal; ring.
      - rewrite <- (Rmult_1_r (f 0)). rewrite (law_scal _ L' (f 0) (fun _ => 1)); [|auto | apply K_const; lra]. rewrite (law_one _ L'). ring. }
    assert (B : forall x, 0 <= x -> n' (fun y => f (x * y)) + z' * f 0 <= s * g x).
    { intros x Hx. specialize (A' _ (K_inner f x Kf Hx)). cbv beta in A'. rewrite Rmult_0_r in A'. exact A'. }
    (* what is given up has an infinite loss all the same where the other step has *)
    set (c := z' * f 0 / s). assert (Hc0 : 0 <= c) by (apply Rmult_le_pos; [apply Rmult_le_pos; auto | left; apply Rinv_0_lt_compat; auto]).
    assert (Ec : s * c = z' * f 0) by (unfold c; field; lra).
    assert (Hc : forall x, 0 <= x -> c <= g x).
    { intros x Hx. apply Rmult_le_reg_l with s; auto. rewrite Ec. specialize (B x Hx).
      assert (0 <= n' (fun y => f (x * y))); [|lra]. apply fm_pos; auto. intros y Hy. apply (K_pos _ Kf). apply Rmult_le_pos; auto. }
    pose proof (K_minus g c Kg Hc) as Kd. pose proof (A _ Kd) as A1. cbv beta in A1. rewrite G0 in A1.
    assert (E : mu g = mu (fun x => g x - c) + c).
    { transitivity (mu (fun x => (g x - c) + c * 1)).
      - apply law_ext; auto. apply (K_plus _ (fun _ => c * 1)); auto. apply K_const; lra. intros; ring.
      - rewrite (law_add _ L (fun x => g x - c) (fun _ => c * 1)); auto; [|apply K_const; lra].
        rewrite (law_scal _ L c (fun _ => 1)); auto; [|apply K_const; lra]. rewrite (law_one _ L). ring. }
    fold g. rewrite E.
    assert (B1 : n (fun x => n' (fun y => f (x * y))) <= s * n (fun x => g x - c)).
    { rewrite <- (fm_scal _ F). apply (fm_mono _ F). intros x Hx. specialize (B x Hx). lra. }
    apply (Rmult_le_compat_l s) in A1; [|lra].
    replace (s * s * (mu (fun x => g x - c) + c)) with (s * (s * mu (fun x => g x - c)) + s * (s * c)) by ring. rewrite Ec.
    replace (s * (n (fun x => g x - c) + z * (f 0 - c))) with (s * n (fun x => g x - c) + z * (s * f 0 - s * c)) in A1 by ring. rewrite Ec in A1. lra.
  Qed.

  (* ---------- L4.3 ---------- *)

  Theorem times_says o o' X Y mu mu' : law mu -> law mu' -> says o X mu -> says o' Y mu' ->
    says (o + o') (sc_times S Q weights X Y) (comp mu mu').
  Proof.
    intros L L' PX PY. unfold sc_times. set (a := Z.min (t_halv X) (t_halv Y)).
    assert (Ha : (0 <= a)%Z) by (destruct PX, PY; lia).
    destruct (sc_at_ok _ _ _ a Ha PX) as [PX1 hX]. destruct (sc_at_ok _ _ _ a Ha PY) as [PY1 hY]. clear PX PY.
    set (X1 := sc_at Q weights a X) in *. set (Y1 := sc_at Q weights a Y) in *.
    replace (Z.min (t_halv X) a) with a in hX by lia. replace (Z.min (t_halv Y) a) with a in hY by lia.
    pose proof (infi_le _ _ _ L PX1) as IX. pose proof (infi_le _ _ _ L' PY1) as IY.
    destruct PX1 as (_ & NF & NC & Hi & A). destruct PY1 as (_ & MF & MC & Hi' & A').
    destruct (on_coarse_ok o X1 ltac:(lia) NF) as [NT AT]. destruct (on_coarse_ok o' Y1 ltac:(lia) MF) as [MT AT'].
    rewrite hX in A, AT. rewrite hY in A', AT'.
    destruct (sc_either_ok (t_infi X1) (t_infi Y1) ltac:(lia) ltac:(lia)) as [E0 E1].
    destruct (cmul_ok (gs H a) o o' _ _ NF MF) as [N1 V1]. destruct (cround_ok (gs H a) (o + o') S _ HS N1) as [N2 V2].
    destruct (cadd_ok H o' _ _ MT MC) as [N3 V3]. destruct (cmul_ok H o o' _ _ NC N3) as [N4 V4].
    destruct (cmul_ok H o o' _ _ NT MC) as [N5 V5]. destruct (cadd_ok H (o + o') _ _ N4 N5) as [N6 V6].
    destruct (cround_ok H (o + o') S _ HS N6) as [N7 V7].
    split; [simpl; lia|]. split; [exact N2|]. split; [exact N7|]. split; [exact E0|]. intros f Kf. cbn [t_halv t_fine t_coarse t_infi].
    pose proof (at_fm (gs H a) o _ NF) as F1. pose proof (at_fm H o _ NC) as F2. pose proof (at_fm (gs H a) o' _ MF) as F3. pose proof (at_fm H o' _ MC) as F4.
    pose proof (comp_below mu mu' (fun f => at_grid (gs H a) o (t_fine X1) f + at_grid H o (t_coarse X1) f)
      (fun f => at_grid (gs H a) o' (t_fine Y1) f + at_grid H o' (t_coarse Y1) f) _ _ L L' (fm_sum _ _ F1 F2) (fm_sum _ _ F3 F4)
      (IZR_le _ _ Hi) (IZR_le _ _ Hi') A A' f Kf) as M.
    specialize (V2 f Kf). specialize (V1 f Kf). specialize (V7 f Kf). specialize (V6 f Kf). specialize (V5 f Kf). specialize (V4 f Kf).
    unfold comp in M, V1, V4, V5 |- *. rewrite !(fm_plus _ F1), !(fm_plus _ F2) in M.
    assert (M1 : at_grid H o (sc_on_coarse Q weights X1) (fun x => at_grid H o' (t_coarse Y1) (fun y => f (x * y))) <=
      at_grid (gs H a) o (t_fine X1) (fun x => at_grid H o' (t_coarse Y1) (fun y => f (x * y)))) by (apply AT; apply (fm_K _ F4); auto).
    assert (M2 : at_grid H o (t_coarse X1) (fun x => at_grid H o' (cadd (sc_on_coarse Q weights Y1) (t_coarse Y1)) (fun y => f (x * y))) <=
      at_grid H o (t_coarse X1) (fun x => at_grid (gs H a) o' (t_fine Y1) (fun y => f (x * y))) +
      at_grid H o (t_coarse X1) (fun x => at_grid H o' (t_coarse Y1) (fun y => f (x * y)))).
    { rewrite <- (fm_plus _ F2). apply (fm_mono _ F2). intros x Hx. pose proof (K_inner f x Kf Hx) as Kx.
      specialize (V3 _ Kx). specialize (AT' _ Kx). cbv beta in *. lra. }
    assert (F0 : 0 <= f 0) by (apply (K_pos _ Kf); lra).
    assert (M3 : s * IZR (sc_either S (t_infi X1) (t_infi Y1)) * f 0 <= (s * IZR (t_infi X1) + s * IZR (t_infi Y1) - IZR (t_infi X1) * IZR (t_infi Y1)) * f 0)
      by (apply Rmult_le_compat_r; auto).
    apply Rmult_le_reg_l with s; auto. fold s in V2, V7 |- *. lra.
  Qed.

  Theorem within_says o w X mu : says o X mu -> says o (sc_within Q weights decay w X) mu.
  Proof.
    intros P. unfold sc_within. destruct (sc_at_ok _ _ _ (Z.max 0 (w_halv w)) ltac:(lia) P) as [P1 _]. clear P.
    set (X1 := sc_at _ _ _ X) in *. destruct P1 as (Ha & NF & NC & Hi & A).
    destruct (cut_ok (gs H (t_halv X1)) o _ (w_low w) NF) as (U1 & U2 & E1).
    destruct (cut_ok (gs H (t_halv X1)) o _ (w_high w + 1) U2) as (U3 & U4 & E2).
    destruct (cadd_ok (gs H (t_halv X1)) o _ _ U1 U4) as [N1 V1].
    destruct (sc_grid_ok (t_halv X1) 0 o _ Ha ltac:(lia) N1) as [N2 V2]. rewrite Z.min_r, gs0 in V2 by lia.
    destruct (cadd_ok H o _ _ NC N2) as [N3 V3]. destruct (window_ok o (w_floor w) (w_top w) _ N3) as [N4 V4].
    split; [simpl; auto|]. split; [exact U3|]. split; [exact N4|]. split; [exact Hi|]. intros f Kf. cbn [t_halv t_fine t_coarse t_infi].
    specialize (A f Kf). specialize (V1 f Kf). specialize (V2 f Kf). specialize (V3 f Kf). specialize (V4 f Kf). rewrite E1, E2 in A. lra.
  Qed.

  Lemma unit_says : says 0 (Score 0 none (Chances 0 [(S, S)]) 0) unit_law.
  Proof.
    split; [simpl; lia|]. split; [constructor|]. split; [constructor; [split; simpl; lia | constructor]|]. split; [simpl; lia|].
    intros f Kf. unfold at_grid, unit_law, persp. simpl. unfold persp. replace (pt H 0 0) with 1.
    2:{ unfold pt. rewrite <- exp_0. f_equal. ring. }
    fold s. replace (1 * s / s) with 1 by (field; lra). lra.
  Qed.
End grid.
