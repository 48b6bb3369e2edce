(* What is proved, and what it rests on: `make proofs` compares the answers with theorems.txt. *)
Require Import Evr.Statement Evr.Training Evr.Main Evr.DpSgd Evr.Experiment Evr.Sanity Evr.LowerStatement Evr.LowerMain.
Print accepted_is_true.
Check main.
Print computed_is_true.
Check computed_main.
Print dpsgd_is_private.
Check dpsgd_main.
Print Assumptions main.
Print Assumptions computed_main.
Print Assumptions dpsgd_main.
Print refuted_is_true.
Check refuted_main.
Print Assumptions refuted_main.
Check tracking_private.
Print Assumptions tracking_private.
