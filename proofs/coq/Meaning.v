(* The words of Statement.v and Training.v are those of the proofs about functionals (Order.v, StepSound.v). *)
Require Import Evr.Setup.
Require Import Evr.Order Evr.ComposerSound Evr.Step Evr.StepSound Evr.Statement.
Unset Implicit Arguments.
Local Open Scope R_scope.

Lemma K_meaning f : K f <-> falling_convex f.
Proof. by split=> [[p d c]|[p [d c]]]; [split; [|split] | constructor]. Qed.

Lemma word_meaning mus w : forall f, word mus w f = composed mus w f.
Proof.
elim: w => [//|k w IH] f /=; rewrite /comp; congr (mus k); apply: funext => x; exact: IH.
Qed.

Lemma osum_meaning D rs : forall sets f, osum D rs sets f = at_sets D rs sets f.
Proof. by elim: rs => [|r rs IH] [|[c [m l]] sets] f //=; rewrite IH. Qed.
