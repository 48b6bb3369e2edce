Require Import Reals ZArith List Lra Lia Bool.
Require Import Evr.Order Evr.Integers Evr.Masses Evr.GridLaw Evr.Product Evr.Powers Evr.Dots Evr.Composer Evr.ComposerSound Evr.Step Evr.ComposerSound.
Import ListNotations.
Open Scope R_scope.

Lemma arith_length {A} (l : list A) : forall p s, length (arith p s l) = length l.
Proof. induction l; intros; simpl; auto. Qed.

Section one.
  Variable mu : (R -> R) -> R.
  Hypothesis L : law mu.
  Variables (S Q V : Z) (sb : Z -> Z * Z) (o u : R).
  Hypothesis HS : (0 < S)%Z.
  Hypothesis HQ : (0 < Q)%Z.
  Hypothesis HV : (0 < V)%Z.
  Hypothesis Hu : 0 < u.
  Hypothesis sb_ok : forall w slo shi, (0 < w)%Z -> sb w = (slo, shi) ->
    (0 <= slo)%Z /\ IZR slo <= IZR Q * exp (- (IZR w * u)) <= IZR shi.

  Definition yp (p : Z) : R := o + IZR p * u.
  Definition xp (p : Z) : R := exp (- yp p).
  Definition val_ok (p : Z) (vd : Z * Z) : Prop :=
    IZR (fst vd) <= IZR V * curve mu (yp p) <= IZR (fst vd + snd vd).

  Lemma curve_nonneg y : 0 <= curve mu y.
  Proof. apply law_pos; auto. apply K_phi. Qed.
  Lemma curve_falls y y' : y <= y' -> curve mu y' <= curve mu y.
  Proof.
    intros H. apply (law_mono _ L); try apply K_phi. intros x Hx. unfold phi. apply Rle_max_compat_l.
    assert (exp y <= exp y') by (destruct H as [H| ->]; [left; apply exp_increasing; auto | lra]).
    assert (exp y * x <= exp y' * x) by (apply Rmult_le_compat_r; auto). lra.
  Qed.
  Lemma xp_falls p q : (p < q)%Z -> xp q < xp p.
  Proof.
    intros H. apply exp_increasing. unfold yp. apply IZR_lt in H.
    assert (IZR p * u < IZR q * u) by (apply Rmult_lt_compat_r; auto). lra.
  Qed.

  Lemma rising_falling ps : rising ps = true -> falling (map xp ps).
  Proof.
    induction ps as [|a ps IH]; simpl; auto. intros H. apply andb_prop in H. destruct H as [H1 H2].
    split; [|auto]. destruct ps; unfold head; simpl.
    - apply exp_pos.
    - apply Z.ltb_lt in H1. apply xp_falls; auto.
  Qed.

  Lemma gbounds_ok p p' v d v' d' gu gl : (p < p')%Z -> val_ok p (v, d) -> val_ok p' (v', d') ->
    gbounds Q V sb (p' - p) v d v' d' = (gu, gl) ->
    IZR gl <= IZR V * slope mu (xp p) (xp p') <= IZR gu.
  Proof.
    intros Hp [H1 H2] [H3 H4] Hg. cbn [fst snd] in *. unfold gbounds in Hg.
    destruct (sb (p' - p)) as [slo shi] eqn:Es.
    assert (Hw : (0 < p' - p)%Z) by lia.
    destruct (sb_ok _ _ _ Hw Es) as (B0 & B1 & B2).
    assert (HQr : 0 < IZR Q) by (apply IZR_lt; auto). assert (HVr : 0 < IZR V) by (apply IZR_lt; auto).
    assert (Hy : yp p < yp p').
    { unfold yp. apply IZR_lt in Hp. assert (IZR p * u < IZR p' * u) by (apply Rmult_lt_compat_r; auto). lra. }
    assert (Hsl : 0 <= slope mu (xp p) (xp p') <= 1).
    { pose proof (xp_falls _ _ Hp). assert (0 < xp p') by apply exp_pos.
      split; [apply slope_nonneg | apply slope_le_1]; auto; lra. }
    unfold xp in *. pose proof (slope_curve mu L _ _ Hy) as Esl. cbv zeta in Esl. rewrite Esl in *. clear Esl.
    set (s := exp (yp p - yp p')) in *.
    replace (exp (- (IZR (p' - p) * u))) with s in *.
    2:{ unfold s, yp. f_equal. rewrite minus_IZR. ring. }
    assert (Hs : 0 < s < 1).
    { unfold s. split. apply exp_pos. rewrite <- exp_0. apply exp_increasing. lra. }
    pose proof (curve_falls (yp p) (yp p') ltac:(lra)) as Hh. pose proof (curve_nonneg (yp p')) as Hh'.
    set (h := curve mu (yp p)) in *. set (h' := curve mu (yp p')) in *.
    inversion Hg; subst gu gl; clear Hg.
    set (g := (h - s * h') / (1 - s)) in *.
    assert (Eg : g * (1 - s) = h - s * h') by (unfold g; field; lra).
    (* g (1 - t) >= h - t h' for t <= s, and <= for t >= s *)
    assert (Hgh : 0 <= g - h').
    { assert ((g - h') * (1 - s) = h - h') by (unfold g; field; lra).
      apply Rmult_le_reg_r with (1 - s); lra. }
    split.
    - destruct (Z.leb_spec Q slo) as [Hq|Hq].
      + apply Rmult_le_pos; lra.
      + apply Rmult_le_reg_r with (IZR (Q - slo)); [apply IZR_lt; lia|].
        eapply Rle_trans; [apply div_le; lia|].
        rewrite !minus_IZR, !mult_IZR.
        set (t := IZR slo / IZR Q). assert (Et : IZR slo = IZR Q * t) by (unfold t; field; lra).
        assert (Hts : t <= s) by (apply Rmult_le_reg_l with (IZR Q); lra).
        assert (Ht0 : 0 <= t) by (apply Rmult_le_reg_l with (IZR Q); auto; apply IZR_le in B0; lra).
        rewrite Et.
        assert (T1 : h - t * h' <= g * (1 - t)).
        { assert ((s - t) * h' <= (s - t) * g) by (apply Rmult_le_compat_l; lra). lra. }
        assert (T2 : t * (IZR V * h') <= t * IZR (v' + d')) by (apply Rmult_le_compat_l; lra).
        apply Rle_trans with (IZR Q * (IZR V * (h - t * h'))).
        * replace (IZR Q * IZR v - IZR Q * t * IZR (v' + d')) with (IZR Q * (IZR v - t * IZR (v' + d'))) by ring.
          apply Rmult_le_compat_l; lra.
        * replace (IZR V * g * (IZR Q - IZR Q * t)) with (IZR Q * (IZR V * (g * (1 - t)))) by ring.
          apply Rmult_le_compat_l; [lra|]. apply Rmult_le_compat_l; lra.
    - destruct (Z.leb_spec Q shi) as [Hq|Hq].
      + rewrite <- (Rmult_1_r (IZR V)) at 2. apply Rmult_le_compat_l; lra.
      + apply Rmult_le_reg_r with (IZR (Q - shi)); [apply IZR_lt; lia|].
        eapply Rle_trans; [|apply le_cdiv; lia].
        rewrite !minus_IZR, !mult_IZR.
        set (t := IZR shi / IZR Q). assert (Et : IZR shi = IZR Q * t) by (unfold t; field; lra).
        assert (Hts : s <= t) by (apply Rmult_le_reg_l with (IZR Q); lra).
        rewrite Et.
        assert (T1 : g * (1 - t) <= h - t * h').
        { assert ((t - s) * h' <= (t - s) * g) by (apply Rmult_le_compat_l; lra). lra. }
        assert (T2 : t * IZR v' <= t * (IZR V * h')) by (apply Rmult_le_compat_l; lra).
        apply Rle_trans with (IZR Q * (IZR V * (h - t * h'))).
        * replace (IZR V * g * (IZR Q - IZR Q * t)) with (IZR Q * (IZR V * (g * (1 - t)))) by ring.
          apply Rmult_le_compat_l; [lra|]. apply Rmult_le_compat_l; lra.
        * replace (IZR Q * IZR (v + d) - IZR Q * t * IZR v') with (IZR Q * (IZR (v + d) - t * IZR v')) by ring.
          apply Rmult_le_compat_l; lra.
  Qed.

  Lemma mlist_ok vs : forall ps, Forall2 val_ok ps vs -> rising ps = true ->
    forall g gu ml mi, IZR V * g <= IZR gu -> mlist S Q V sb gu ps vs = (ml, mi) ->
    Forall2 (fun m M => m * IZR S <= IZR M /\ (0 <= M)%Z) (ms mu g (map xp ps)) ml /\
    minf mu g (map xp ps) * IZR S <= IZR mi.
  Proof.
    assert (HVr : 0 < IZR V) by (apply IZR_lt; auto). assert (HSr : 0 < IZR S) by (apply IZR_lt; auto).
    assert (Hm : forall m a, IZR V * m <= IZR a -> m * IZR S <= IZR (cdiv (a * S) V)).
    { intros m a Hma. apply Rmult_le_reg_r with (IZR V); auto.
      eapply Rle_trans; [|apply le_cdiv; auto]. rewrite mult_IZR.
      replace (m * IZR S * IZR V) with (IZR V * m * IZR S) by ring. apply Rmult_le_compat_r; lra. }
    induction vs as [|[v d] vs IH]; intros ps Hps Hr g gu ml mi Hg Hml.
    - inversion Hps; subst. simpl in *. inversion Hml; subst. split; [constructor | apply Hm; auto].
    - inversion Hps as [|p vd ps' vs0 Hv Hps']; subst. cbn [mlist map ms minf] in *.
      assert (Hr' : rising ps' = true) by (simpl in Hr; apply andb_prop in Hr; tauto).
      assert (HG : exists gu' gl', (match ps', vs with p' :: _, (v', d') :: _ => gbounds Q V sb (p' - p) v d v' d'
                     | _, _ => ((v + d)%Z, v) end) = (gu', gl') /\
                   IZR gl' <= IZR V * slope mu (xp p) (head (map xp ps')) <= IZR gu').
      { inversion Hps' as [|p' [v' d'] ps'' vs'' Hv' Hps'']; subst.
        - exists (v + d)%Z, v. split; auto. unfold head; simpl. unfold xp. rewrite slope_last by auto. apply Hv.
        - destruct (gbounds Q V sb (p' - p) v d v' d') as [gu' gl'] eqn:Eg. exists gu', gl'. split; auto.
          unfold head; simpl. simpl in Hr. apply andb_prop in Hr. destruct Hr as [Hr _]. apply Z.ltb_lt in Hr.
          eapply gbounds_ok; eauto. }
      destruct HG as (gu' & gl' & Eg & HG). rewrite Eg in Hml.
      destruct (mlist S Q V sb gu' ps' vs) as [ml' mi'] eqn:Em.
      inversion Hml; subst ml mi; clear Hml.
      destruct (IH ps' Hps' Hr' _ gu' ml' mi' (proj2 HG) Em) as [I1 I2].
      split; auto. constructor; auto. split; [|lia].
      eapply Rle_trans; [apply (Hm _ (gu - gl')%Z)|apply IZR_le; lia].
      rewrite minus_IZR. rewrite Rmult_minus_distr_l. lra.
  Qed.

  Lemma sf_app f m1 : forall x1 m2 x2, length m1 = length x1 -> sf (m1 ++ m2) (x1 ++ x2) f = sf m1 x1 f + sf m2 x2 f.
  Proof. induction m1; intros [|y x1] m2 x2 Hl; simpl in *; try discriminate; [lra|]. rewrite IHm1 by lia. lra. Qed.

  (* along an arithmetic list of places a sum is that of a grid *)
  Lemma sf_grid {A} h step f (l : list A) : forall i m, IZR step * u = h -> length m = length l ->
    sf m (map xp (arith (i * step) step l)) f = ev (exp (- h)) (pt h o i) m f.
  Proof.
    induction l; intros i [|b m] Hh Hl; simpl in *; try discriminate; auto.
    assert (E : xp (i * step) = pt h o i).
    { unfold xp, yp, pt. rewrite mult_IZR, <- Hh. f_equal. ring. }
    rewrite E, pt_next. replace (i * step + step)%Z with ((i + 1) * step)%Z by ring. rewrite IHl; auto.
  Qed.
  (* Outcomes: what is known, and what follows cell by cell. *)
  Variables (eb : Z -> Z * Z) (loss_at : Z -> Z) (D : Z).
  Hypothesis HD : (0 < D)%Z.
  Hypothesis eb_ok : forall a elo ehi, (0 < a)%Z -> eb a = (elo, ehi) ->
    IZR elo <= IZR Q * exp (- (IZR a / IZR D)) <= IZR ehi.
  Hypothesis loss_ok : forall p, IZR (loss_at p) / IZR D = yp p.

  Fixpoint osum (rs : list R) (sets : list (Z * (Z * Z))) (f : R -> R) : R :=
    match rs, sets with
    | r :: rs', (_, (_, l)) :: sets' => r * f (exp (- (IZR l / IZR D))) + osum rs' sets' f
    | _, _ => 0
    end.
  Definition mass_ok (r : R) (s : Z * (Z * Z)) : Prop := 0 <= r /\ r * IZR V <= IZR (fst (snd s)).

  Definition end_of (next : option Z) : R := match next with Some p' => xp p' | None => 0 end.

  Lemma chord f a b x : K f -> 0 <= b <= x -> x <= a -> b < a ->
    f x <= (a - x) / (a - b) * f b + (1 - (a - x) / (a - b)) * f a.
  Proof.
    intros Kf Hb Hx Hab. set (t := (a - x) / (a - b)).
    assert (Et : t * (a - b) = a - x) by (unfold t; field; lra).
    assert (0 <= t <= 1).
    { split; [apply Rmult_le_pos; [lra | left; apply Rinv_0_lt_compat; lra]|].
      apply Rmult_le_reg_r with (a - b); lra. }
    replace x with (t * b + (1 - t) * a) at 1 by lra. apply (K_cvx _ Kf); lra.
  Qed.

  Lemma shares_of_ok p next l s d : match next with Some p' => (p < p')%Z /\ (l <= loss_at p')%Z | None => True end ->
    shares_of Q sb eb (match next with Some p' => Some (p' - p)%Z | None => None end) (l - loss_at p) = (s, d) ->
    exists t, 0 <= t <= 1 /\ t * IZR Q <= IZR s /\ (1 - t) * IZR Q <= IZR d /\
      forall f, K f -> f (exp (- (IZR l / IZR D))) <= t * f (end_of next) + (1 - t) * f (xp p).
  Proof.
    intros Hn Hs. assert (HQr : 0 < IZR Q) by (apply IZR_lt; auto). assert (HDr : 0 < IZR D) by (apply IZR_lt; auto).
    unfold shares_of in Hs. set (x := exp (- (IZR l / IZR D))).
    assert (Hx : 0 < x) by apply exp_pos. assert (Ha : 0 < xp p) by apply exp_pos.
    assert (mono : forall i j, (i <= j)%Z -> exp (- (IZR j / IZR D)) <= exp (- (IZR i / IZR D))).
    { intros i j Hij. apply IZR_le in Hij. assert (IZR i / IZR D <= IZR j / IZR D).
      { apply Rmult_le_compat_r; [left; apply Rinv_0_lt_compat; auto | auto]. }
      destruct (Rle_lt_or_eq_dec _ _ H) as [Hlt|Heq]; [left; apply exp_increasing; lra | rewrite Heq; lra]. }
    destruct (Z.leb_spec (l - loss_at p) 0) as [Hl|Hl].
    - inversion Hs; subst. exists 0. split; [lra|]. split; [lra|]. split; [lra|].
      intros f Kf. assert (f x <= f (xp p)); [|lra]. apply (K_dec _ Kf); [lra|].
      unfold xp. rewrite <- loss_ok. apply mono. lia.
    - set (a := (l - loss_at p)%Z) in *. destruct (eb a) as [elo ehi] eqn:Ee.
      destruct (eb_ok _ _ _ Hl Ee) as [E1 E2].
      assert (Exa : x = xp p * exp (- (IZR a / IZR D))).
      { unfold x, xp. rewrite <- exp_plus. f_equal. rewrite <- loss_ok. unfold a. rewrite minus_IZR. field. lra. }
      set (e := exp (- (IZR a / IZR D))) in *.
      assert (He : 0 < e < 1).
      { split; [apply exp_pos|]. unfold e. rewrite <- exp_0. apply exp_increasing.
        assert (0 < IZR a / IZR D); [|lra]. apply Rmult_lt_0_compat; [apply (IZR_lt 0); auto | apply Rinv_0_lt_compat; auto]. }
      assert (Hxp : x <= xp p) by (rewrite Exa; rewrite <- (Rmult_1_r (xp p)) at 2; apply Rmult_le_compat_l; lra).
      destruct next as [p'|].
      + destruct Hn as [Hp Hl']. destruct (sb (p' - p)) as [slo shi] eqn:Es.
        destruct (sb_ok (p' - p)%Z _ _ ltac:(lia) Es) as (B0 & B1 & B2).
        set (g := exp (- (IZR (p' - p) * u))) in *.
        assert (Egx : xp p' = xp p * g).
        { unfold xp, g, yp. rewrite <- exp_plus. f_equal. rewrite minus_IZR. ring. }
        assert (Hg : 0 < g < 1).
        { split; [apply exp_pos|]. unfold g. rewrite <- exp_0. apply exp_increasing.
          assert (0 < IZR (p' - p) * u); [|lra]. apply Rmult_lt_0_compat; auto. apply (IZR_lt 0). lia. }
        assert (Hge : g <= e).
        { apply Rmult_le_reg_l with (xp p); auto. rewrite <- Egx, <- Exa. unfold xp at 1. rewrite <- loss_ok. apply mono. auto. }
        set (t := (1 - e) / (1 - g)).
        assert (Et : t * (1 - g) = 1 - e) by (unfold t; field; lra).
        assert (Ht : 0 <= t <= 1).
        { split; [apply Rmult_le_pos; [lra | left; apply Rinv_0_lt_compat; lra]|]. apply Rmult_le_reg_r with (1 - g); lra. }
        exists t. inversion Hs; subst s d; clear Hs. split; auto. split; [|split].
        * destruct (Z.leb_spec Q shi) as [Hq|Hq].
          -- rewrite <- (Rmult_1_l (IZR Q)) at 2. apply Rmult_le_compat_r; lra.
          -- apply Z.min_case_strong; intros _.
             ++ rewrite <- (Rmult_1_l (IZR Q)) at 2. apply Rmult_le_compat_r; lra.
             ++ apply Rmult_le_reg_r with (IZR (Q - shi)); [apply IZR_lt; lia|].
                eapply Rle_trans; [|apply le_cdiv; lia]. rewrite !mult_IZR, !minus_IZR.
                assert (t * (IZR Q - IZR shi) <= IZR Q - IZR elo).
                { assert (t * (IZR Q - IZR shi) <= t * (IZR Q * (1 - g))) by (apply Rmult_le_compat_l; lra).
                  replace (t * (IZR Q * (1 - g))) with (IZR Q * (t * (1 - g))) in H by ring. rewrite Et in H. lra. }
                replace (t * IZR Q * (IZR Q - IZR shi)) with (t * (IZR Q - IZR shi) * IZR Q) by ring.
                apply Rmult_le_compat_r; lra.
        * destruct (Z.leb_spec Q slo) as [Hq|Hq].
          -- rewrite <- (Rmult_1_l (IZR Q)) at 2. apply Rmult_le_compat_r; lra.
          -- rewrite minus_IZR. enough (IZR (Z.max 0 ((Q - ehi) * Q / (Q - slo))) <= t * IZR Q) by lra.
             apply Z.max_case_strong; intros Hm.
             ++ apply Rmult_le_pos; lra.
             ++ apply Rmult_le_reg_r with (IZR (Q - slo)); [apply IZR_lt; lia|].
                eapply Rle_trans; [apply div_le; lia|]. rewrite !mult_IZR, !minus_IZR.
                assert (IZR Q - IZR ehi <= t * (IZR Q - IZR slo)).
                { assert (t * (IZR Q * (1 - g)) <= t * (IZR Q - IZR slo)) by (apply Rmult_le_compat_l; lra).
                  replace (t * (IZR Q * (1 - g))) with (IZR Q * (t * (1 - g))) in H by ring. rewrite Et in H. lra. }
                replace (t * IZR Q * (IZR Q - IZR slo)) with (t * (IZR Q - IZR slo) * IZR Q) by ring.
                apply Rmult_le_compat_r; lra.
        * intros f Kf. cbn [end_of].
          assert (Hb : xp p' < xp p) by (rewrite Egx; rewrite <- (Rmult_1_r (xp p)) at 2; apply Rmult_lt_compat_l; lra).
          assert (Hbx : xp p' <= x) by (rewrite Egx, Exa; apply Rmult_le_compat_l; lra).
          assert (0 < xp p') by apply exp_pos.
          replace t with ((xp p - x) / (xp p - xp p')).
          2:{ unfold t. rewrite Egx, Exa. field. split; [lra|]. replace (xp p - xp p * g) with (xp p * (1 - g)) by ring.
              apply Rmult_integral_contrapositive_currified; lra. }
          apply chord; auto; lra.
      + exists (1 - e). inversion Hs; subst s d; clear Hs. split; [lra|]. split; [rewrite minus_IZR; lra|]. split; [lra|].
        intros f Kf. cbn [end_of].
        replace (1 - e) with ((xp p - x) / (xp p - 0)) by (rewrite Exa; field; lra).
        apply chord; auto; lra.
  Qed.

  Lemma cell_ok j p next : match next with Some p' => (p < p')%Z | None => True end ->
    forall sets rs down up r q down' up' rest, Forall2 mass_ok rs sets -> 0 <= r -> 0 <= q ->
    r * (IZR V * IZR Q) <= IZR down -> q * (IZR V * IZR Q) <= IZR up ->
    cell Q sb eb loss_at j p next sets down up = Some (down', up', rest) ->
    exists r' q' rs', Forall2 mass_ok rs' rest /\ 0 <= r' /\ 0 <= q' /\
      r' * (IZR V * IZR Q) <= IZR down' /\ q' * (IZR V * IZR Q) <= IZR up' /\
      r' + q' + rsum rs' = r + q + rsum rs /\
      forall f, K f -> r * f (xp p) + q * f (end_of next) + osum rs sets f <=
                       r' * f (xp p) + q' * f (end_of next) + osum rs' rest f.
  Proof.
    intros Hn. assert (HQr : 0 < IZR Q) by (apply IZR_lt; auto). assert (HVr : 0 < IZR V) by (apply IZR_lt; auto).
    induction sets as [|[c [m l]] sets IH]; intros rs down up r q down' up' rest Hrs Hr Hq Hd Hup Hc; cbn [cell] in Hc.
    - inversion Hc; subst. exists r, q, rs. repeat split; auto. intros; lra.
    - destruct (c =? j)%Z; [|inversion Hc; subst; exists r, q, rs; repeat split; auto; intros; lra].
      destruct ((0 <=? m)%Z && match next with Some p' => (l <=? loss_at p')%Z | None => true end)%bool eqn:El; [|discriminate].
      apply andb_prop in El. destruct El as [_ El].
      destruct (shares_of _ _ _ _ _) as [s d] eqn:Es.
      inversion Hrs as [|r1 x rs1 y [H0 H1] Hrs1]; subst. cbn [fst snd] in H1.
      destruct (shares_of_ok p next l s d) as (t & Ht & Ts & Td & Tf); auto.
      { destruct next; auto. apply Z.leb_le in El. auto. }
      assert (Hm : 0 <= IZR m) by (eapply Rle_trans; [|apply H1]; apply Rmult_le_pos; lra).
      assert (S1 : (r1 * t) * (IZR V * IZR Q) <= IZR (m * s)).
      { rewrite mult_IZR. replace (r1 * t * (IZR V * IZR Q)) with ((r1 * IZR V) * (t * IZR Q)) by ring.
        apply Rmult_le_compat; auto; apply Rmult_le_pos; lra. }
      assert (S2 : (r1 * (1 - t)) * (IZR V * IZR Q) <= IZR (m * d)).
      { rewrite mult_IZR. replace (r1 * (1 - t) * (IZR V * IZR Q)) with ((r1 * IZR V) * ((1 - t) * IZR Q)) by ring.
        apply Rmult_le_compat; auto; apply Rmult_le_pos; lra. }
      assert (0 <= r1 * t) by (apply Rmult_le_pos; lra). assert (0 <= r1 * (1 - t)) by (apply Rmult_le_pos; lra).
      assert (B1 : (r + r1 * (1 - t)) * (IZR V * IZR Q) <= IZR (down + m * d)) by (rewrite plus_IZR, Rmult_plus_distr_r; lra).
      assert (B2 : (q + r1 * t) * (IZR V * IZR Q) <= IZR (up + m * s)) by (rewrite plus_IZR, Rmult_plus_distr_r; lra).
      assert (P1 : 0 <= r + r1 * (1 - t)) by lra. assert (P2 : 0 <= q + r1 * t) by lra.
      destruct (IH rs1 _ _ _ _ _ _ _ Hrs1 P1 P2 B1 B2 Hc)
        as (r' & q' & rs' & A1 & A2 & A3 & A4 & A5 & A6 & A7).
      exists r', q', rs'. repeat (split; auto).
      + cbn [rsum fold_right] in *. unfold rsum in *. cbn [fold_right]. lra.
      + intros f Kf. eapply Rle_trans; [|apply A7; auto]. cbn [osum]. specialize (Tf f Kf).
        assert (r1 * f (exp (- (IZR l / IZR D))) <= r1 * (t * f (end_of next) + (1 - t) * f (xp p)))
          by (apply Rmult_le_compat_l; auto). lra.
  Qed.

  Lemma olist_ok infinite z : 0 <= z -> z * IZR V <= IZR infinite -> forall ps j p sets rs here r out ml mi,
    rising (p :: ps) = true -> Forall2 mass_ok rs sets -> 0 <= r -> r * (IZR V * IZR Q) <= IZR here ->
    olist S Q V sb eb loss_at j p ps sets here infinite out = Some (ml, mi) ->
    exists ml' m y, ml = rev_append out ml' /\ Forall2 (le (IZR S)) m ml' /\ 0 <= y /\ y * IZR S <= IZR mi /\
      rsum m + y = r + rsum rs + z /\
      forall f, K f -> r * f (xp p) + osum rs sets f + z * f 0 <= sf m (map xp (p :: ps)) f + y * f 0.
  Proof.
    intros Hz Hzi. assert (HQr : 0 < IZR Q) by (apply IZR_lt; auto). assert (HVr : 0 < IZR V) by (apply IZR_lt; auto).
    assert (HSr : 0 < IZR S) by (apply IZR_lt; auto). assert (HVQ : 0 < IZR V * IZR Q) by (apply Rmult_lt_0_compat; auto).
    assert (Hc : forall a b, a * (IZR V * IZR Q) <= IZR b -> a * IZR S <= IZR (cdiv (b * S) (V * Q))).
    { intros a b Hab. apply Rmult_le_reg_r with (IZR V * IZR Q); auto.
      eapply Rle_trans; [|rewrite <- mult_IZR; apply le_cdiv; nia]. rewrite mult_IZR.
      replace (a * IZR S * (IZR V * IZR Q)) with (a * (IZR V * IZR Q) * IZR S) by ring. apply Rmult_le_compat_r; lra. }
    induction ps as [|p' ps IH]; intros j p sets rs here r out ml mi Hr Hrs H0 H1 Ho; cbn [olist] in Ho;
      destruct (cell _ _ _ _ _ _ _ _ _ _) as [[[down up] rest]|] eqn:Ec; try discriminate.
    - destruct rest; [|discriminate]. inversion Ho; subst ml mi; clear Ho.
      destruct (cell_ok j p None I sets rs here 0 r 0 down up [] Hrs H0 ltac:(lra) H1 ltac:(lra) Ec)
        as (r' & q' & rs' & A1 & A2 & A3 & A4 & A5 & A6 & A7).
      inversion A1; subst rs'. cbn [osum rsum fold_right end_of] in *.
      exists [cdiv (down * S) (V * Q)], [r'], (q' + z). split; [reflexivity|]. split.
      { constructor; [|constructor]. split; auto. }
      split; [lra|]. split.
      { apply Hc. rewrite plus_IZR, mult_IZR, Rmult_plus_distr_r.
        assert (z * IZR V * IZR Q <= IZR infinite * IZR Q) by (apply Rmult_le_compat_r; lra). lra. }
      split; [unfold rsum in *; cbn [fold_right] in *; lra|].
      intros f Kf. specialize (A7 f Kf). cbn [sf map]. lra.
    - assert (Hp : (p < p')%Z) by (cbn [rising] in Hr; apply andb_prop in Hr; destruct Hr as [Hr _]; apply Z.ltb_lt in Hr; auto).
      assert (Hr' : rising (p' :: ps) = true) by (cbn [rising] in Hr |- *; apply andb_prop in Hr; apply Hr).
      destruct (cell_ok j p (Some p') Hp sets rs here 0 r 0 down up rest Hrs H0 ltac:(lra) H1 ltac:(lra) Ec)
        as (r' & q' & rs' & A1 & A2 & A3 & A4 & A5 & A6 & A7).
      destruct (IH _ _ _ _ _ _ _ _ _ Hr' A1 A3 A5 Ho) as (ml' & m & y & -> & B2 & B3 & B4 & B5 & B6).
      exists (cdiv (down * S) (V * Q) :: ml')%Z, (r' :: m), y. split; [reflexivity|]. split.
      { constructor; auto. split; auto. }
      split; auto. split; auto. split; [unfold rsum in *; cbn [fold_right] in *; lra|].
      intros f Kf. specialize (A7 f Kf). specialize (B6 f Kf). cbn [sf map end_of] in *. lra.
  Qed.
End one.

Lemma rsum_app a b : rsum (a ++ b) = rsum a + rsum b.
Proof. unfold rsum. induction a; cbn [app fold_right]; [ring | rewrite IHa; ring]. Qed.

(* What is asked of a kind: its curve is enclosed at its places, or its outcomes are no worse than the listed sets. *)
Definition loss_of (den spacing : Z) (g : grid) (p : Z) : R :=
  IZR (g_off g) / IZR den + IZR p * (IZR spacing / IZR (den * size g)).
Definition encloses (den spacing : Z) (k : kind) (mu : (R -> R) -> R) : Prop :=
  let g := k_grid k in
  let V := IZR (2 ^ k_vbits k) in
  match k_source k with
  | Curve values =>
      Forall2 (fun p vd => IZR (fst vd) <= V * mu (phi (loss_of den spacing g p)) <= IZR (fst vd + snd vd)) (places g) values
  | Outcomes infinite sets =>
      exists (masses : list R) (z : R),
        Forall2 (fun r s => 0 <= r /\ r * V <= IZR (fst (snd s))) masses sets /\
        0 <= z /\ z * V <= IZR infinite /\ rsum masses + z = 1 /\
        forall f, K f -> mu f <= osum (den * size g * 2 ^ k_vbits k) masses sets f + z * f 0
  | Own => False
  end.

Lemma split_exact {A B} (s : list A) (l : list B) b r : split_like s l = (b, r) -> (length s <= length l)%nat ->
  l = b ++ r /\ length b = length s.
Proof.
  intros H Hl. destruct (split_like_spec _ _ _ _ H) as (-> & H1 & H2). split; auto.
  rewrite app_length in Hl. destruct r; [simpl in Hl; lia|]. apply H2. discriminate.
Qed.

(* masses at the places of a grid, of a law that is above mu, cover mu *)
Lemma arranged_ok S den spacing g mu ml mi m y m1 r1 m2 m3 :
  (0 < S)%Z -> (0 < den)%Z -> (0 < spacing)%Z -> (0 <= g_halv g)%Z ->
  Forall2 (le (IZR S)) m ml -> 0 <= y -> y * IZR S <= IZR mi -> rsum m + y = 1 -> length m = length (places g) ->
  (forall f, K f -> mu f <= sf m (map (xp (IZR (g_off g) / IZR den) (IZR spacing / IZR (den * size g))) (places g)) f + y * f 0) ->
  split_like (run_of (g_low g)) ml = (m1, r1) -> split_like (run_of (g_fine g)) r1 = (m2, m3) ->
  covers S (IZR spacing / IZR den) (IZR (g_off g) / IZR den)
    (Glaw (g_halv g) (Masses (g_ffirst g) m2) (madd (Masses (g_floor g) m1) (Masses (g_hfirst g) m3)) (Z.min S mi)) mu.
Proof.
  intros HS Hd Hsp Hh Hle Hy Hmi Htot Hlen Hdom E1 E2.
  assert (Hsize : (0 < size g)%Z) by (apply Z.pow_pos_nonneg; lia).
  assert (Hdr : 0 < IZR den) by (apply IZR_lt; auto). assert (Hspr : 0 < IZR spacing) by (apply IZR_lt; auto).
  assert (Hszr : 0 < IZR (size g)) by (apply IZR_lt; auto). assert (HSr : 0 < IZR S) by (apply IZR_lt; auto).
  set (oR := IZR (g_off g) / IZR den) in *. set (u := IZR spacing / IZR (den * size g)) in *.
  set (v1 := run_of (g_low g)) in *. set (v2 := run_of (g_fine g)) in *. set (v3 := run_of (g_high g)) in *.
  assert (Hpl : places g = arith (g_floor g * size g) (size g) v1 ++ arith (g_ffirst g) 1 v2 ++ arith (g_hfirst g * size g) (size g) v3) by reflexivity.
  rewrite Hpl in *. rewrite !app_length, !arith_length in Hlen.
  rewrite (F2_length _ _ _ Hle) in Hlen.
  destruct (split_exact _ _ _ _ E1 ltac:(lia)) as [-> L1]. rewrite app_length in Hlen.
  destruct (split_exact _ _ _ _ E2 ltac:(lia)) as [-> L2]. rewrite app_length in Hlen.
  pose proof Hle as Hle'.
  apply Forall2_app_inv_r in Hle. destruct Hle as (n1 & n' & H1 & H' & Em1).
  apply Forall2_app_inv_r in H'. destruct H' as (n2 & n3 & H2 & H3 & ->).
  pose proof (F2_length _ _ _ H1). pose proof (F2_length _ _ _ H2). pose proof (F2_length _ _ _ H3).
  assert (Hgs : gs (IZR spacing / IZR den) (g_halv g) = IZR 1 * u).
  { unfold gs, u, size. rewrite mult_IZR. fold (size g). field. lra. }
  assert (HH : IZR (size g) * u = IZR spacing / IZR den).
  { unfold u. rewrite mult_IZR. field. lra. }
  assert (Hsf : forall f, sf m (map (xp oR u) (arith (g_floor g * size g) (size g) v1 ++ arith (g_ffirst g) 1 v2 ++ arith (g_hfirst g * size g) (size g) v3)) f =
    ev (exp (- gs (IZR spacing / IZR den) (g_halv g))) (pt (gs (IZR spacing / IZR den) (g_halv g)) oR (g_ffirst g)) n2 f +
    (ev (exp (- (IZR spacing / IZR den))) (pt (IZR spacing / IZR den) oR (g_floor g)) n1 f +
     ev (exp (- (IZR spacing / IZR den))) (pt (IZR spacing / IZR den) oR (g_hfirst g)) n3 f)).
  { intros f. rewrite Em1. rewrite !map_app.
    rewrite sf_app by (rewrite map_length, arith_length; lia).
    rewrite sf_app by (rewrite map_length, arith_length; lia).
    rewrite (sf_grid oR u _ (size g) f v1 (g_floor g) n1 HH) by lia.
    rewrite (sf_grid oR u _ (size g) f v3 (g_hfirst g) n3 HH) by lia.
    replace (g_ffirst g) with (g_ffirst g * 1)%Z at 1 by ring.
    rewrite (sf_grid oR u _ 1 f v2 (g_ffirst g) n2 (eq_sym Hgs)) by lia. ring. }
  split; [simpl; auto|]. split; [simpl; lia|].
  do 3 eexists. cbn [fine coarse infi halv]. split; [|split; [|split; [|split]]].
  - apply below_intro, H2.
  - apply below_madd; apply below_intro; eassumption.
  - split; [apply Hy|]. apply Z.min_case_strong; intros _; auto.
    assert (Hz1 : y <= 1).
    { assert (0 <= rsum m) by (apply rsum_nonneg; eapply le_nonneg; eauto). lra. }
    assert (y * IZR S <= 1 * IZR S) by (apply Rmult_le_compat_r; lra). lra.
  - cbv beta. rewrite !ev_one. transitivity (rsum m + y); [|exact Htot]. rewrite Em1.
    rewrite !rsum_app. ring.
  - intros f Kf. specialize (Hdom f Kf). rewrite Hsf in Hdom. exact Hdom.
Qed.

Lemma arith_e : arith_t = @arith.
Proof.
  ext. unfold arith_t. enough (H : forall (l : list x) p acc, arith_a p x1 l acc = rev_append acc (arith p x1 l)) by apply H.
  induction l; intros; simpl; try reflexivity; auto. rewrite IHl. reflexivity.
Qed.
Lemma mlist_e : mlist_t = mlist.
Proof.
  ext. unfold mlist_t.
  enough (H : forall ps gu vs acc, mlist_a x x0 x1 x2 gu ps vs acc =
    let '(m, i) := mlist x x0 x1 x2 gu ps vs in (rev_append acc m, i)).
  { rewrite H. destruct (mlist x x0 x1 x2 x3 x4 x5). auto. }
  induction ps; intros; cbn [mlist_a mlist]; try reflexivity; auto. destruct vs as [|[v d] vs]; try reflexivity; auto.
  destruct (match ps with [] => _ | _ => _ end) as [gu' gl']. rewrite IHps. destruct (mlist x x0 x1 x2 gu' ps vs). auto.
Qed.
Lemma places_e : places_t = places. Proof. unfold places_t. rewrite arith_e, app_e. reflexivity. Qed.

Theorem step_ok sq Q S den spacing k mu o X : law mu -> (0 < S)%Z -> (0 < Q)%Z -> (0 < den)%Z -> (0 < spacing)%Z ->
  encloses den spacing k mu -> step_law sq Q S den spacing k = Some (o, X) ->
  covers S (IZR spacing / IZR den) (IZR o / IZR den) X mu.
Proof.
  intros L HS HQ Hd Hsp Henc Hst. unfold step_law in Hst. rewrite places_e, mlist_e, split_e in Hst. set (g := k_grid k) in *.
  destruct (Z.leb_spec 0 (g_halv g)) as [Hh|]; [|discriminate]. destruct (Z.leb_spec 0 (k_vbits k)) as [Hvb|]; [|discriminate].
  cbn [andb] in Hst. set (V := (2 ^ k_vbits k)%Z) in *.
  assert (Hsize : (0 < size g)%Z) by (apply Z.pow_pos_nonneg; lia).
  assert (HV : (0 < V)%Z) by (apply Z.pow_pos_nonneg; lia).
  assert (Hdr : 0 < IZR den) by (apply IZR_lt; auto). assert (Hspr : 0 < IZR spacing) by (apply IZR_lt; auto).
  assert (Hszr : 0 < IZR (size g)) by (apply IZR_lt; auto). assert (HVr : 0 < IZR V) by (apply IZR_lt; auto).
  assert (Hds : (0 < den * size g)%Z) by nia.
  assert (Hdsr : 0 < IZR (den * size g)) by (apply IZR_lt; auto).
  set (u := IZR spacing / IZR (den * size g)).
  assert (Hu : 0 < u) by (apply Rmult_lt_0_compat; auto; apply Rinv_0_lt_compat; auto).
  set (bounds := fun n d : Z => (exp_down sq Q (- n) d, exp_up sq Q n d)) in *.
  assert (Hbo : forall n d lo hi, (0 < n)%Z -> (0 < d)%Z -> bounds n d = (lo, hi) ->
    (0 <= lo)%Z /\ IZR lo <= IZR Q * exp (- (IZR n / IZR d)) <= IZR hi).
  { intros n d lo hi Hn Hd0 E. inversion E; subst. assert (IZR d <> 0) by (apply not_0_IZR; lia).
    destruct (exp_down_ok sq Q (- n) d HQ Hd0) as [D0 D1].
    pose proof (exp_up_ok sq Q n d HQ Hd0 ltac:(lia)) as U. split; auto. split; auto.
    replace (- (IZR n / IZR d)) with (IZR (- n) / IZR d); auto. rewrite opp_IZR. field; auto. }
  set (sb := fun w : Z => if (w =? 1)%Z then _ else _) in Hst.
  set (oR := IZR (g_off g) / IZR den).
  assert (Hsb : forall w slo shi, (0 < w)%Z -> sb w = (slo, shi) ->
    (0 <= slo)%Z /\ IZR slo <= IZR Q * exp (- (IZR w * u)) <= IZR shi).
  { intros w slo shi Hw Es. assert (E : bounds (spacing * w)%Z (den * size g)%Z = (slo, shi)).
    { unfold sb in Es. destruct (Z.eqb_spec w 1); [subst; rewrite Z.mul_1_r; auto|].
      destruct (Z.eqb_spec w (size g)); [subst; auto|]. auto. }
    replace (IZR w * u) with (IZR (spacing * w) / IZR (den * size g)).
    - apply Hbo; auto. nia.
    - rewrite (mult_IZR spacing). unfold u. field. lra. }
  destruct (rising (places g)) eqn:Hr; [|discriminate]. destruct (sane V (k_source k)); [|discriminate]. cbn [andb] in Hst.
  destruct (places g) as [|p ps] eqn:Eps; [discriminate|]. rewrite <- Eps in *.
  destruct (match k_source k with Curve _ => _ | Outcomes _ _ => _ | Own => _ end) as [[ml mi]|] eqn:Em; [|discriminate].
  destruct (split_like (run_of (g_low g)) ml) as [m1 r1] eqn:E1. destruct (split_like (run_of (g_fine g)) r1) as [m2 m3] eqn:E2.
  inversion Hst; subst o X; clear Hst.
  unfold encloses in Henc. fold g V in Henc. destruct (k_source k) as [values|infinite sets|]; [| |discriminate].
  - inversion Em as [Em']; clear Em.
    assert (Hrg : IZR V * 1 <= IZR V) by lra.
    destruct (mlist_ok mu L S Q V sb oR u HS HQ HV Hu Hsb values (places g) Henc Hr 1 V ml mi Hrg Em') as [M1 M2].
    assert (Hfall : falling (map (xp oR u) (places g))) by (apply rising_falling; auto).
    assert (Hne : map (xp oR u) (places g) <> []) by (rewrite Eps; discriminate).
    assert (Hnn : nonneg (ms mu 1 (map (xp oR u) (places g)))).
    { apply ms_nonneg; auto. destruct (map (xp oR u) (places g)) as [|x xs]; auto. destruct Hfall as [F1 F2].
      pose proof (head_nonneg _ F2). apply slope_le_1; auto; lra. }
    pose proof (minf_nonneg mu L _ Hfall 1 ltac:(lra)) as Hi0.
    pose proof (masses_total mu (map (xp oR u) (places g)) 1) as Htot.
    apply (arranged_ok S den spacing g mu ml mi (ms mu 1 (map (xp oR u) (places g))) (minf mu 1 (map (xp oR u) (places g))) m1 r1); auto.
    + clear - M1 Hnn. induction M1; constructor; inversion Hnn; subst; auto. split; tauto.
    + assert (forall xs g, length (ms mu g xs) = length xs) as -> by (induction xs; intros; simpl; auto). apply map_length.
    + intros f Kf. exact (connect_the_dots mu L (map (xp oR u) (places g)) f Kf Hfall Hne).
  - destruct Henc as (rs & z & R1 & R2 & R3 & R4 & R5).
    set (D := (den * size g * V)%Z) in *. assert (HD : (0 < D)%Z) by (unfold D; nia).
    assert (HDr : IZR D = IZR den * IZR (size g) * IZR V) by (unfold D; rewrite !mult_IZR; auto).
    rewrite Eps in Hr.
    destruct (olist_ok S Q V sb oR u HS HQ HV Hu Hsb (fun a => bounds a D) (fun q => (g_off g * size g + q * spacing) * V)%Z D HD
      (fun a lo hi Ha E => proj2 (Hbo a D lo hi Ha HD E))
      ltac:(intros q; rewrite HDr, mult_IZR, plus_IZR, !mult_IZR; unfold yp, oR, u; rewrite mult_IZR; field; lra)
      infinite z R2 R3 ps 0%Z p sets rs 0%Z 0 [] ml mi Hr R1 ltac:(lra) ltac:(lra) Em)
      as (ml' & m & y & Eml & B2 & B3 & B4 & B5 & B6).
    simpl in Eml. subst ml'.
    apply (arranged_ok S den spacing g mu ml mi m y m1 r1); auto.
    + lra.
    + rewrite Eps. apply F2_length in B2 as B2l. rewrite B2l.
      enough (H : forall ps j p sets here out ml mi, olist S Q V sb (fun a => bounds a D) (fun q => (g_off g * size g + q * spacing) * V)%Z j p ps sets here infinite out = Some (ml, mi) ->
        length ml = (length out + length (p :: ps))%nat) by (apply H in Em; simpl in Em |- *; lia).
      clear. induction ps as [|p' ps IH]; intros j p sets here out ml mi Ho; cbn [olist] in Ho;
        destruct (cell _ _ _ _ _ _ _ _ _ _) as [[[down up] rest]|]; try discriminate.
      * destruct rest; [|discriminate]. inversion Ho; subst. rewrite rev_append_rev, app_length, rev_length. simpl. lia.
      * apply IH in Ho. rewrite Ho. simpl. lia.
    + intros f Kf. specialize (R5 f Kf). specialize (B6 f Kf). rewrite Eps. fold oR u. lra.
Qed.

Lemma all_some_nth {A} (l : list (option A)) : forall m k a, all_some l = Some m -> nth_error m k = Some a ->
  nth_error l k = Some (Some a).
Proof.
  induction l as [|[x|] l IH]; intros m k a Hm Hk; simpl in Hm; try discriminate.
  - inversion Hm; subst. destruct k; discriminate.
  - destruct (all_some l) as [m'|] eqn:E; [|discriminate]. inversion Hm; subst.
    destruct k; simpl in *; [congruence | eauto].
Qed.

(* The main theorem. *)
Theorem verify_sound (c : claim) (mus : nat -> (R -> R) -> R) (b : Z) :
  (forall k, law (mus k)) ->
  (forall i j f, K f -> comp (mus i) (mus j) f = comp (mus j) (mus i) f) ->
  (forall k kd, nth_error (c_kinds c) k = Some kd -> encloses (c_den c) (c_spacing c) kd (mus k)) ->
  verify c = Some b ->
  forall w : list nat,
    (forall k, Z.of_nat (count_occ Nat.eq_dec w k) = nth k (c_counts c) 0%Z) ->
    word mus w (phi (IZR (c_eps c) / IZR (c_den c))) <= IZR b / IZR (2 ^ (2 * c_bits c)).
Proof.
  intros Hl Hf He Hv w Hw. unfold verify in Hv.
  destruct (Z.leb_spec 0 (c_bits c)) as [Hb|]; [|discriminate].
  destruct (Z.ltb_spec 0 (c_den c)) as [Hd|]; [|discriminate].
  destruct (Z.ltb_spec 0 (c_spacing c)) as [Hs|]; [|discriminate]. cbn [andb] in Hv.
  set (base := Cert _ _ _ _ _ _ _ _) in Hv.
  destruct (all_some _) as [ks|] eqn:Ek; [|discriminate].
  refine (checker_sound (Cert (c_bits c) (c_den c) (c_spacing c) (c_eps c) ks (c_counts c) (c_prog c) (c_last c)) mus Hl Hb Hd Hs _ Hf b Hv w Hw).
  cbn [kinds bits spacing den].
  intros k o X Hk.
  pose proof (all_some_nth _ _ _ _ Ek Hk) as Hn. rewrite nth_error_map in Hn.
  destruct (nth_error (c_kinds c) k) as [kd|] eqn:Ekd; [|discriminate]. simpl in Hn. inversion Hn.
  assert (HS : (0 < SS base)%Z) by (unfold SS; change (bits base) with (c_bits c); apply Z.pow_pos_nonneg; lia).
  assert (HQ : (0 < QQ base)%Z) by (unfold QQ; change (bits base) with (c_bits c); apply Z.pow_pos_nonneg; lia).
  exact (step_ok _ _ _ _ _ _ _ _ _ (Hl k) HS HQ Hd Hs (He k kd Ekd) H0).
Qed.
