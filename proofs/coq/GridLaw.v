(* S4: the invariant, and S4.3 - S4.5 for grid laws. *)
Require Import Reals ZArith List Lra Lia Evr.Order Evr.Integers Evr.Masses.
Import ListNotations.
Open Scope R_scope.

(* spacing of the grid of a halvings *)
Definition gs (H : R) (a : Z) : R := H / IZR (2 ^ a).

(* finite measures add up *)
Lemma fm_sum n m : fm n -> fm m -> fm (fun f => n f + m f).
Proof.
  intros A B; constructor; intros.
  - apply Rplus_le_compat; [apply (fm_mono _ A) | apply (fm_mono _ B)]; auto.
  - rewrite (fm_plus _ A), (fm_plus _ B). ring.
  - rewrite (fm_scal _ A), (fm_scal _ B). ring.
  - apply (K_plus _ _ (fm_K _ A _ H) (fm_K _ B _ H)).
Qed.

(* S2 (ii) with the atom at x = 0 apart, and S4.5 on the infinite mass *)
Lemma comp_above mu mu' n n' z z' : law mu -> law mu' -> fm n -> fm n' -> 0 <= z -> 0 <= z' ->
  n (fun _ => 1) + z = 1 -> n' (fun _ => 1) + z' = 1 ->
  (forall f, K f -> mu f <= n f + z * f 0) -> (forall f, K f -> mu' f <= n' f + z' * f 0) ->
  forall f, K f -> comp mu mu' f <= comp n n' f + (z + z' - z * z') * f 0.
Proof.
  intros L L' F F' Hz Hz' T T' A A' f Kf. unfold comp.
  set (g := fun x => n' (fun y => f (x * y)) + z' * f 0).
  assert (Kg : K g).
  { unfold g. apply (K_plus _ (fun _ => z' * f 0)). apply (fm_K _ F'); auto.
    apply K_const. apply Rmult_le_pos; auto. apply (K_pos _ Kf); lra. }
  apply Rle_trans with (mu g).
  { apply (law_mono _ L); auto. apply K_under; auto.
    intros x Hx. unfold g. specialize (A' (fun y => f (x * y)) (K_inner _ _ Kf Hx)).
    simpl in A'. rewrite Rmult_0_r in A'. auto. }
  eapply Rle_trans; [apply A; auto|].
  unfold g at 1. rewrite (fm_plus _ F), (fm_const _ (z' * f 0) F).
  unfold g. replace (n' (fun y => f (0 * y))) with (f 0 * n' (fun _ => 1)).
  2:{ rewrite <- (fm_const _ _ F'). apply (fm_ext _ _ _ F'). intros; f_equal; ring. }
  replace (n (fun _ => 1)) with (1 - z) by lra. replace (n' (fun _ => 1)) with (1 - z') by lra.
  right. ring.
Qed.

Lemma ev_comm h h' p : forall x y q (g : R -> R -> R),
  ev h x p (fun u => ev h' y q (fun v => g u v)) = ev h' y q (fun v => ev h x p (fun u => g u v)).
Proof.
  induction p; intros; simpl; [rewrite ev_const; ring|].
  rewrite (ev_plus h' q y (fun v => a * g x v) (fun v => ev h (x * h) p (fun u => g u v))).
  rewrite (ev_scal h' q a y (fun v => g x v)), IHp. ring.
Qed.
Lemma below_comm s h o o' M N nu nu' f : below s h o M nu -> below s h o' N nu' -> comp nu nu' f = comp nu' nu f.
Proof.
  intros (l & _ & He) (l' & _ & He'). unfold comp. rewrite He.
  rewrite (ev_ext _ _ _ _ (fun x => ev (exp (- h)) (pt h o' (first N)) l' (fun y => f (x * y)))) by (intros; apply He').
  rewrite ev_comm, He'. apply ev_ext. intros y. rewrite He. apply ev_ext. intros x. f_equal. ring.
Qed.

Section grid.
  Variable S : Z.
  Variable mul : list Z -> list Z -> list Z.
  Variable sh : Z -> Z -> list Z.
  Variable E : Z.
  Variable H : R.
  Hypothesis HS : (0 < S)%Z.
  Hypothesis HH : 0 < H.
  Hypothesis mul_ok : forall p q, Forall (fun z => (0 <= z)%Z) p -> Forall (fun z => (0 <= z)%Z) q ->
    mul p q = zmul p q.
  Hypothesis sh_ok : forall a b, (0 <= b < a)%Z ->
    shares_ok S (exp (- gs H a)) (exp (- gs H b)) 1 (sh a b).
  Hypothesis E_ok : (0 <= E)%Z /\ IZR E <= IZR S * exp (- H).

  Let s := IZR S.
  Let Hs : 0 < s. Proof. apply (IZR_lt 0); auto. Qed.

  Definition covers (o : R) (X : glaw) (mu : (R -> R) -> R) : Prop :=
    (0 <= halv X)%Z /\ (infi X <= S)%Z /\
    exists nF nC z, below (IZR S) (gs H (halv X)) o (fine X) nF /\ below (IZR S) H o (coarse X) nC /\
      le (IZR S) z (infi X) /\ nF (fun _ => 1) + nC (fun _ => 1) + z = 1 /\
      forall f, K f -> mu f <= nF f + nC f + z * f 0.

  Lemma gs_pos a : (0 <= a)%Z -> 0 < gs H a.
  Proof.
    intros. apply Rmult_lt_0_compat; auto. apply Rinv_0_lt_compat. apply (IZR_lt 0). apply Z.pow_pos_nonneg; lia.
  Qed.

  Lemma gs_0 : gs H 0 = H.
  Proof. unfold gs. simpl. field. Qed.

  Lemma to_grid_ok a b o M nu : (0 <= a)%Z -> (0 <= b)%Z -> below (IZR S) (gs H a) o M nu ->
    exists nu', below (IZR S) (gs H (Z.min a b)) o (to_grid S sh a b M) nu' /\
      nu' (fun _ => 1) = nu (fun _ => 1) /\ forall f, K f -> nu f <= nu' f.
  Proof.
    intros Ha Hb Hn. unfold to_grid. destruct (Z.leb_spec a b).
    - rewrite Z.min_l by lia. exists nu; repeat split; auto. intros; lra.
    - rewrite Z.min_r by lia.
      assert (Hg : IZR (2 ^ (a - b)) * gs H a = gs H b).
      { unfold gs. replace (2 ^ a)%Z with (2 ^ (a - b) * 2 ^ b)%Z.
        2:{ rewrite <- Z.pow_add_r by lia. f_equal; lia. }
        rewrite mult_IZR. field.
        split; apply not_0_IZR; apply Z.pow_nonzero; lia. }
      rewrite <- Hg. apply below_coarsened; auto.
      + apply gs_pos; auto.
      + apply Z.pow_pos_nonneg; lia.
      + rewrite Hg. apply sh_ok; lia.
  Qed.

  Lemma on_coarse_ok o X nu : (0 <= halv X)%Z -> below (IZR S) (gs H (halv X)) o (fine X) nu ->
    exists nu', below (IZR S) H o (on_coarse S sh X) nu' /\
      nu' (fun _ => 1) = nu (fun _ => 1) /\ forall f, K f -> nu f <= nu' f.
  Proof.
    intros Ha Hn. destruct (to_grid_ok (halv X) 0 o _ _ Ha ltac:(lia) Hn) as (nu' & B & R).
    rewrite Z.min_r, gs_0 in B by lia. eauto.
  Qed.

  Lemma covers_coarse o X mu : covers o X mu -> exists nu z, below (IZR S) H o (all_coarse S sh X) nu /\
    le (IZR S) z (infi X) /\ nu (fun _ => 1) + z = 1 /\ forall f, K f -> mu f <= nu f + z * f 0.
  Proof.
    intros (Ha & Hi & nF & nC & z & BF & BC & Hz & T & A).
    destruct (on_coarse_ok _ _ _ Ha BF) as (nF' & BF' & T' & A').
    exists (fun f => nC f + nF' f), z. split; [apply below_madd; auto|]. split; auto. split; [lra|].
    intros f Kf. specialize (A f Kf). specialize (A' f Kf). lra.
  Qed.

  Lemma covers_at o X mu b : (0 <= b)%Z -> covers o X mu ->
    covers o (at_halv S sh b X) mu /\ halv (at_halv S sh b X) = Z.min (halv X) b.
  Proof.
    intros Hb C. pose proof C as (Ha & Hi & nF & nC & z & BF & BC & Hz & T & A).
    unfold at_halv. destruct (Z.leb_spec (halv X) b); [split; [auto | lia]|].
    destruct (Z.eqb_spec b 0); simpl; (split; [|lia]).
    - destruct (covers_coarse _ _ _ C) as (nu & z' & B & Hz' & T' & A').
      split; [simpl; lia|]. split; [simpl; lia|]. exists (fun _ => 0), nu, z'. simpl.
      split; [apply below_nothing|]. split; auto. split; auto. split; [lra|].
      intros f Kf. specialize (A' f Kf). lra.
    - destruct (to_grid_ok _ b o _ _ Ha Hb BF) as (nF' & BF' & TF & AF).
      rewrite Z.min_r in BF' by lia.
      split; [simpl; lia|]. split; [simpl; lia|]. exists nF', nC, z. simpl.
      split; auto. split; auto. split; auto. split; [lra|].
      intros f Kf. specialize (A f Kf). specialize (AF f Kf). lra.
  Qed.

  Lemma either_ok z z' a b : le s z a -> le s z' b -> z <= 1 -> z' <= 1 -> (a <= S)%Z -> (b <= S)%Z ->
    le s (z + z' - z * z') (either S a b) /\ (either S a b <= S)%Z.
  Proof.
    intros [Hz Ha] [Hz' Hb] H1 H1' HaS HbS. split; [|unfold either; lia].
    assert (Hp : 0 <= (1 - z) * (1 - z') <= 1).
    { split. apply Rmult_le_pos; lra. rewrite <- (Rmult_1_l 1) at 3. apply Rmult_le_compat; lra. }
    assert (He : z + z' - z * z' = 1 - (1 - z) * (1 - z')) by ring.
    split; [lra|]. unfold either.
    assert (Hq : (a * b / S * S <= a * b)%Z) by (rewrite Z.mul_comm; apply Z.mul_div_le; auto).
    apply IZR_le in Hq, HaS, HbS. rewrite !mult_IZR in Hq. fold s in Hq, HaS, HbS.
    apply Z.min_case_strong; intros _.
    - rewrite minus_IZR, plus_IZR.
      assert (Hm : (s - IZR a) * (s - IZR b) <= (s - z * s) * (s - z' * s)) by (apply Rmult_le_compat; lra).
      apply Rmult_le_reg_r with s; auto. rewrite He. lra.
    - fold s. rewrite He. assert ((1 - (1 - z) * (1 - z')) * s <= 1 * s) by (apply Rmult_le_compat_r; lra). lra.
  Qed.

  Theorem covers_times o o' X Y mu mu' : law mu -> law mu' -> covers o X mu -> covers o' Y mu' ->
    covers (o + o') (times S mul sh X Y) (comp mu mu').
  Proof.
    intros L L' CX CY. unfold times. set (a := Z.min (halv X) (halv Y)).
    assert (Ha : (0 <= a)%Z) by (destruct CX, CY; lia).
    destruct (covers_at _ _ _ a Ha CX) as [CX1 hX]. destruct (covers_at _ _ _ a Ha CY) as [CY1 hY].
    clear CX CY. set (X1 := at_halv S sh a X) in *. set (Y1 := at_halv S sh a Y) in *.
    replace (Z.min (halv X) a) with a in hX by lia. replace (Z.min (halv Y) a) with a in hY by lia.
    destruct CX1 as (_ & IX & nF & nC & z & BF & BC & Hz & T & A).
    destruct CY1 as (_ & IY & mF & mC & y & DF & DC & Hy & U & B).
    destruct (on_coarse_ok o X1 nF) as (nT & BT & TT & AT); auto; try lia.
    destruct (on_coarse_ok o' Y1 mF) as (mT & DT & UT & BTT); auto; try lia.
    rewrite hX in BF. rewrite hY in DF.
    pose proof (below_fm _ _ _ _ _ BF) as FnF. pose proof (below_fm _ _ _ _ _ BC) as FnC.
    pose proof (below_fm _ _ _ _ _ DF) as FmF. pose proof (below_fm _ _ _ _ _ DC) as FmC.
    pose proof (below_fm _ _ _ _ _ BT) as FnT. pose proof (below_fm _ _ _ _ _ DT) as FmT.
    assert (P1 : forall n, fm n -> 0 <= n (fun _ => 1)) by (intros n Hn; apply fm_pos; auto; intros; lra).
    pose proof (P1 _ FnF). pose proof (P1 _ FnC). pose proof (P1 _ FmF). pose proof (P1 _ FmC).
    assert (Hz1 : z <= 1) by lra. assert (Hy1 : y <= 1) by lra.
    destruct (either_ok z y (infi X1) (infi Y1) Hz Hy Hz1 Hy1 IX IY) as [Hzy HS2].
    split; [simpl; lia|]. split; [simpl; auto|].
    exists (comp nF mF), (fun f => comp nC (fun f => mT f + mC f) f + comp nT mC f), (z + y - z * y).
    simpl. split; [|split; [|split; [|split]]].
    - apply below_mround; auto. apply below_mmul; auto.
    - apply below_mround; auto. apply below_madd.
      + apply below_mmul; auto. apply below_madd; auto.
      + apply below_mmul; auto.
    - auto.
    - unfold comp.
      rewrite (fm_const _ (mF _) FnF), (fm_const _ (mT _ + mC _) FnC), (fm_const _ (mC _) FnT).
      rewrite TT, UT.
      replace (nF (fun _ => 1)) with (1 - z - nC (fun _ => 1)) by lra.
      replace (mF (fun _ => 1)) with (1 - y - mC (fun _ => 1)) by lra. ring.
    - intros f Kf.
      assert (M := comp_above mu mu' (fun f => nF f + nC f) (fun f => mF f + mC f) z y L L'
        (fm_sum _ _ FnF FnC) (fm_sum _ _ FmF FmC) (proj1 Hz) (proj1 Hy) T U A B f Kf).
      unfold comp in M |- *. rewrite !(fm_plus _ FnF), !(fm_plus _ FnC) in M. rewrite (fm_plus _ FnC).
      (* fine times coarse: the fine factor is coarsened *)
      assert (M1 := AT _ (fm_K _ FmC _ Kf)). simpl in M1.
      assert (M2 : nC (fun x => mF (fun y => f (x * y))) <= nC (fun x => mT (fun y => f (x * y)))).
      { apply (fm_mono _ FnC). intros x Hx. apply BTT. apply K_inner; auto. }
      lra.
  Qed.

  Theorem covers_square sqr o X mu :
    (forall p, Forall (fun z => (0 <= z)%Z) p -> sqr p = zmul p p) ->
    law mu -> covers o X mu -> covers (o + o) (square S mul sh sqr X) (comp mu mu).
  Proof.
    intros sqr_ok L (Ha & IX & nF & nC & z & BF & BC & Hz & T & A).
    destruct (on_coarse_ok o X nF) as (nT & BT & TT & AT); auto.
    pose proof (below_fm _ _ _ _ _ BF) as FnF. pose proof (below_fm _ _ _ _ _ BC) as FnC.
    pose proof (below_fm _ _ _ _ _ BT) as FnT.
    assert (P1 : forall n, fm n -> 0 <= n (fun _ => 1)) by (intros n Hn; apply fm_pos; auto; intros; lra).
    pose proof (P1 _ FnF). pose proof (P1 _ FnC).
    assert (Hz1 : z <= 1) by lra.
    destruct (either_ok z z (infi X) (infi X) Hz Hz Hz1 Hz1 IX IX) as [Hzy HS2].
    split; [simpl; lia|]. split; [simpl; auto|].
    exists (comp nF nF), (comp nC (fun f => (nT f + nT f) + nC f)), (z + z - z * z).
    simpl. split; [|split; [|split; [|split]]].
    - apply below_mround; auto. pose proof BF as (lF & HF & _).
      rewrite sqr_ok by (eapply le_Znonneg; eauto).
      change (Masses (first (fine X) + first (fine X)) (zmul (coef (fine X)) (coef (fine X)))) with (mmul zmul (fine X) (fine X)).
      apply below_mmul; auto.
    - apply below_mround; auto. apply below_mmul; auto. apply below_madd; auto. apply below_madd; auto.
    - auto.
    - unfold comp.
      rewrite (fm_const _ (nF _) FnF), (fm_const _ (nT _ + nT _ + nC _) FnC). rewrite TT.
      replace (nF (fun _ => 1)) with (1 - z - nC (fun _ => 1)) by lra. ring.
    - intros f Kf.
      assert (M := comp_above mu mu (fun f => nF f + nC f) (fun f => nF f + nC f) z z L L
        (fm_sum _ _ FnF FnC) (fm_sum _ _ FnF FnC) (proj1 Hz) (proj1 Hz) T T A A f Kf).
      pose proof (below_comm _ _ _ _ _ _ _ _ f BT BC) as Hcm.
      unfold comp in M, Hcm |- *. rewrite !(fm_plus _ FnF), !(fm_plus _ FnC) in M. rewrite !(fm_plus _ FnC).
      assert (M1 := AT _ (fm_K _ FnC _ Kf)). simpl in M1.
      assert (M2 : nC (fun x => nF (fun y => f (x * y))) <= nC (fun x => nT (fun y => f (x * y)))).
      { apply (fm_mono _ FnC). intros x Hx. apply AT. apply K_inner; auto. }
      lra.
  Qed.

  Theorem covers_within o w X mu : covers o X mu -> covers o (within S sh E w X) mu.
  Proof.
    intros C. unfold within.
    destruct (covers_at _ _ _ (Z.max 0 (w_halv w)) ltac:(lia) C) as [C1 _]. clear C.
    set (X1 := at_halv S sh (Z.max 0 (w_halv w)) X) in *.
    destruct C1 as (Ha & Hi & nF & nC & z & BF & BC & Hz & T & A).
    destruct (below_cut _ _ _ _ _ (w_low w) BF) as (n1 & n2 & B1 & B2 & E1).
    destruct (below_cut _ _ _ _ _ (w_high w + 1)%Z B2) as (n3 & n4 & B3 & B4 & E2).
    destruct (to_grid_ok (halv X1) 0 o _ _ Ha ltac:(lia) (below_madd _ _ _ _ _ _ _ B1 B4)) as (n5 & B5 & T5 & A5).
    rewrite Z.min_r, gs_0 in B5 by lia.
    pose proof (below_madd _ _ _ _ _ _ _ BC B5) as B6.
    set (ends := to_grid _ _ _ _ _) in *.
    destruct (windowed S E (w_floor w) (w_top w) (madd (coarse X1) ends)) as [c esc] eqn:Ew.
    destruct E_ok as [E0 E1'].
    destruct (below_windowed _ _ _ _ _ _ _ _ _ _ HS HH E0 E1' B6 Ew) as (n7 & z7 & B7 & Hz7 & T7 & A7).
    pose proof (below_fm _ _ _ _ _ B3) as F3. pose proof (below_fm _ _ _ _ _ B7) as F7.
    assert (P1 : forall n, fm n -> 0 <= n (fun _ => 1)) by (intros n Hn; apply fm_pos; auto; intros; lra).
    pose proof (P1 _ F3). pose proof (P1 _ F7).
    assert (Tz : n3 (fun _ => 1) + n7 (fun _ => 1) + (z + z7) = 1).
    { rewrite E1, E2 in T. lra. }
    split; [simpl; auto|]. split; [simpl; lia|]. exists n3, n7, (z + z7). simpl.
    split; auto. split; auto. split; [|split; auto].
    - destruct Hz as [? Hz], Hz7 as [? Hz7]. split; [lra|].
      apply Z.min_case_strong; intros _.
      + rewrite plus_IZR. lra.
      + fold s. assert ((z + z7) * s <= 1 * s) by (apply Rmult_le_compat_r; lra). lra.
    - intros f Kf. specialize (A f Kf). specialize (A5 f Kf). specialize (A7 f Kf).
      simpl in A7. rewrite E1, E2 in A. lra.
  Qed.

  Lemma covers_unit : covers 0 (Glaw 0 nothing (Masses 0 [S]) 0) unit_law.
  Proof.
    split; [simpl; lia|]. split; [simpl; lia|].
    exists (fun _ => 0), (ev (exp (- H)) (pt H 0 0) [1]), 0. simpl.
    assert (pt H 0 0 = 1) by (unfold pt; rewrite <- exp_0; f_equal; ring).
    split; [apply below_nothing|]. split.
    { exists [1]; simpl; split; auto. constructor; constructor; lra. }
    split; [split; lra|]. split; [lra|]. intros f Kf. rewrite H0. unfold unit_law. lra.
  Qed.
End grid.
