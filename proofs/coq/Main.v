(* The theorem of Statement.v. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum.
From mathcomp.classical Require Import boolp classical_sets.
From mathcomp.analysis Require Import reals ereal Rstruct measure lebesgue_measure lebesgue_integral.
Require Import Reals ZArith List Lra.
Require Import Evr.Order Evr.ComposerSound Evr.Step Evr.StepSound Evr.Reader Evr.Judge Evr.JudgeSound Evr.Measure Evr.Statement.
Local Open Scope classical_set_scope.
Local Open Scope ring_scope.
Local Open Scope R_scope.

Lemma K_meaning f : K f <-> falling_convex f.
Proof. by split=> [[p d c]|[p [d c]]]; [split; [|split] | constructor]. Qed.

Lemma word_meaning mus w : forall f, word mus w f = composed mus w f.
Proof.
elim: w => [//|k w IH] f /=; rewrite /comp; congr (mus k); apply: funext => x; exact: IH.
Qed.

Lemma osum_meaning D rs : forall sets f, osum D rs sets f = at_sets D rs sets f.
Proof. by elim: rs => [|r rs IH] [|[c [m l]] sets] f //=; rewrite IH. Qed.

Lemma listed_encloses den spacing k mu : listed_truly den spacing k mu -> encloses den spacing k mu.
Proof.
rewrite /listed_truly /encloses; case: (k_source k) => // infinite sets [ms [z [h1 [h2 [h3 [h4 h5]]]]]].
exists ms, z; do 4 (split; first by []).
by move=> f Kf; rewrite osum_meaning; apply: h5; apply/K_meaning.
Qed.

Theorem main : accepted_is_true.
Proof.
move=> t F bounds Hj disp T P x P1 mx x0 step Hlist d w Hw; rewrite -word_meaning.
have [m [s [Hin Hs]]] : exists m s, List.In (m, s) (f_sections F) /\ serves m d.
  move: (accepted_both t F bounds Hj); rewrite /both_directions.
  case: (f_sections F) => [//|[[] s] [|[[] s'] [|? ?]]] // _.
  - by case: d; [exists Remove, s | exists Add, s']; split=> //=; auto.
  - by exists Both, s; split=> //=; auto.
apply: (accepted_sound t F bounds m s (step d) Hj Hin) => //.
- by move=> k; exact: (law_of_is_law (P1 _ _) (mx _ _) (x0 _ _)).
- by move=> i j f Kf; exact: (law_of_fubini (P1 _ _) (P1 _ _) (mx _ _) (mx _ _) (x0 _ _) (x0 _ _) Kf).
- by move=> k kd Hk; apply: listed_encloses; exact: (Hlist m s d k kd Hin Hs Hk).
Qed.
