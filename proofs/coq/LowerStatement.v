(* What "refuted for DP-SGD" means, in the words of Training.v. [refute_text] (LowerJudge.v) is the program that runs.
   The statement is proved in LowerMain.v. *)
Require Import Evr.Setup.
Require Import Evr.Reader Evr.Judge Evr.LowerJudge.
Require Export Evr.Training.
Local Open Scope R_scope.

Definition mark_of (d : direction) : mark := match d with remove => Remove | add => Add end.

(* T3. If the program says "refuted for DP-SGD", delta of the composition of the stated laws is greater than the stated delta, in the one
   direction that the file holds; it is at least the bound that the program prints. *)
Definition refuted_is_true : Prop :=
  forall (t : text) (F : file) (bounds : list (option Z)), refute_text t = LowerJudged F bounds Refuted ->
  exists (d : direction) (s : section) (b : Z), f_sections F = [:: (mark_of d, s)] /\ bounds = [:: Some b] /\
  forall (laws : nat -> noise) (order : list nat), states_laws F laws -> states_order F order ->
  let found := composed (fun k => step (laws k) d) order (excess (epsilon F)) in
  delta F < IZR b / IZR (2 ^ (2 * s_bits s)) /\ IZR b / IZR (2 ^ (2 * s_bits s)) <= found.
