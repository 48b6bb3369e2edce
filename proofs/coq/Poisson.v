(* S6: Poisson sampling of a curve, in both directions, from the pair: H_r = sup_A P(A) - r Q(A). *)
Require Import Reals Lra.
Open Scope R_scope.

Section poisson.
  Variables (event : Type) (none all : event).
  Definition probability (P : event -> R) : Prop := P none = 0 /\ P all = 1 /\ forall A, 0 <= P A <= 1.
  Definition is_curve (P Q : event -> R) (r h : R) : Prop := is_lub (fun y => exists A, y = P A - r * Q A) h.

  Variables (P Q : event -> R) (q : R).
  Hypotheses (HP : probability P) (HQ : probability Q) (Hq : 0 < q < 1).
  Definition mixed (U V : event -> R) (A : event) : R := (1 - q) * U A + q * V A.

  Lemma scaled c (p p' : event -> R) h h' : 0 < c -> (forall A, p' A = c * p A) ->
    is_lub (fun y => exists A, y = p A) h -> is_lub (fun y => exists A, y = p' A) h' -> h' = c * h.
  Proof.
    intros Hc E [u l] [u' l']. apply Rle_antisym.
    - apply l'. intros y [A ->]. rewrite E. apply Rmult_le_compat_l; [lra | apply u; eauto].
    - replace h' with (c * (h' / c)) by (field; lra). apply Rmult_le_compat_l; [lra|].
      apply l. intros y [A ->]. apply Rmult_le_reg_l with c; auto. rewrite <- E.
      replace (c * (h' / c)) with h' by (field; lra). apply u'; eauto.
  Qed.

  (* ((1 - q) Q + q P, Q) *)
  Theorem poisson_remove r h h' : 1 - q <= r -> is_curve P Q ((r - 1 + q) / q) h ->
    is_curve (mixed Q P) Q r h' -> h' = q * h.
  Proof.
    intros Hr H H'. apply (scaled q (fun A => P A - (r - 1 + q) / q * Q A) (fun A => mixed Q P A - r * Q A) h h'); auto; [lra|].
    intros A. unfold mixed. field. lra.
  Qed.
  Theorem poisson_remove_below r h' : r <= 1 - q -> is_curve (mixed Q P) Q r h' -> h' = 1 - r.
  Proof.
    intros Hr [u l]. destruct HP as (_ & P1 & PA). destruct HQ as (_ & Q1 & QA). apply Rle_antisym.
    - apply l. intros y [A ->]. unfold mixed. specialize (PA A). specialize (QA A).
      assert ((1 - q - r) * Q A <= (1 - q - r) * 1) by (apply Rmult_le_compat_l; lra).
      assert (q * P A <= q * 1) by (apply Rmult_le_compat_l; lra). lra.
    - apply u. exists all. unfold mixed. rewrite P1, Q1. ring.
  Qed.

  (* (P, (1 - q) P + q Q) *)
  Theorem poisson_add r h h' : 0 < 1 - (1 - q) * r -> is_curve P Q (q * r / (1 - (1 - q) * r)) h ->
    is_curve P (mixed P Q) r h' -> h' = (1 - (1 - q) * r) * h.
  Proof.
    intros Hc H H'. apply (scaled (1 - (1 - q) * r) (fun A => P A - q * r / (1 - (1 - q) * r) * Q A)
      (fun A => P A - r * mixed P Q A) h h'); auto.
    intros A. unfold mixed. field. lra.
  Qed.
  Theorem poisson_add_beyond r h' : 0 <= r -> 1 - (1 - q) * r <= 0 -> is_curve P (mixed P Q) r h' -> h' = 0.
  Proof.
    intros Hr Hc [u l]. destruct HP as (P0 & _ & PA). destruct HQ as (Q0 & _ & QA). apply Rle_antisym.
    - apply l. intros y [A ->]. unfold mixed. specialize (PA A). specialize (QA A).
      assert (0 <= r * q * Q A) by (apply Rmult_le_pos; [apply Rmult_le_pos|]; lra).
      assert (0 <= (1 - q) * r * P A - P A).
      { replace ((1 - q) * r * P A - P A) with (((1 - q) * r - 1) * P A) by ring. apply Rmult_le_pos; lra. } lra.
    - apply u. exists none. unfold mixed. rewrite P0, Q0. ring.
  Qed.
End poisson.
