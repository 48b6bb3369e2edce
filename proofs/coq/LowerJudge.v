(* A refutation, judged: what is extracted. docs/proof_format.md, "Refutations". *)
Require Import ZArith List Bool String Ascii.
Require Import Evr.Integers Evr.Composer Evr.Step Evr.Reader Evr.Laws Evr.Enclose Evr.Judge Evr.LowerIntegers Evr.LowerComposer Evr.LowerStep.
Import ListNotations.
Open Scope bool_scope.
Open Scope Z_scope.

Definition w_refutation := Eval vm_compute in codes "evr-refutation".
Definition w_tests := Eval vm_compute in codes "tests".
Definition w_scores := Eval vm_compute in codes "scores".

(* A file like that of a proof. Of its kinds the grids stand in it, and what is tested of each beside them. *)
Record refutation := Refutation { r_file : file; r_tested : list (list tested) }.

Definition read_tested : reader (kind * tested) :=
  do name <- any; do g <- read_grid; do vbits <- nat_below 20000;
  let number := g_low g + g_fine g + g_high g in
  if same name w_tests then
    do tbits <- nat_below 20000; do ts <- packed (Z.max 0 (number - 1));
    ret (Kind g vbits Own, Tests tbits ts)
  else if same name w_scores then
    do infinite <- by_ natural; do p <- packed number; do q <- packed number;
    ret (Kind g vbits Own, Scores infinite (zip p q))
  else fun _ => None.

Definition read_direction (kinds : Z) : reader (mark * section * list tested) :=
  do _ <- keyword w_direction; do name <- any;
  do _ <- keyword w_grid; do bits <- nat_below 6000; do den <- by_ natural; do spacing <- by_ natural;
  do ks <- many read_tested kinds;
  do _ <- keyword w_products; do n <- nat_below 1000; do prog <- many read_product n;
  do _ <- keyword w_halves; do a <- int; do b <- int;
  let s := Section bits den spacing (map_t _ _ fst ks) prog (a, b) in
  let tests := map_t _ _ snd ks in
  if same name w_remove then ret (Remove, s, tests)
  else if same name w_add then ret (Add, s, tests)
  else if same name w_both then ret (Both, s, tests)
  else fun _ => None.

Definition read_refutation : reader refutation :=
  do _ <- keyword w_refutation; do _ <- keyword w_version;
  do _ <- keyword w_relation; do relation <- any;
  do _ <- keyword w_epsilon; do epsilon <- by_ fraction;
  do _ <- keyword w_delta; do delta <- by_ fraction;
  do _ <- keyword w_steps; do n <- nat_below 1000; do steps <- many read_step n;
  do _ <- keyword w_directions; do m <- nat_below 2; do sections <- many (read_direction n) m;
  do _ <- keyword w_end;
  ret (Refutation (File relation epsilon delta steps (map fst sections)) (map snd sections)).

Definition read_refuting (t : text) : option refutation :=
  match words t [] [] with
  | Some ws => match read_refutation ws with Some (R, []) => Some R | _ => None end
  | None => None
  end.

Inductive lower_verdict :=
  | Refuted                                   (* for DP-SGD: LowerStatement.v says what this means *)
  | RefutedIfListed                           (* if the listed numbers are right *)
  | RefutedIfLaw                              (* if the law is right for replace-one neighbours *)
  | NotRefuted (why : reason).
Inductive lower_answer :=
  | NoRefutation                              (* not a refutation *)
  | TooLargeRefutation                        (* beyond the limits *)
  | LowerJudged (F : file) (bounds : list (option Z)) (v : lower_verdict).   (* delta is at least the bound, over 2^(2 bits) *)

Definition refused_tested (law : text) (t : tested) : option reason :=
  if own_law law then
    match read_own law, t with None, _ => Some (BadNumbers law) | Some _, Tests _ _ => None | Some _, _ => Some (Listed law) end
  else match t with Tests _ _ => Some (NotOwn law) | _ => None end.

(* the score of each kind, or why there is none *)
Definition score_of_kind (m : mark) (s : section) (law : text) (kd : kind) (t : tested) : option (Z * list (Z * Z)) :=
  match t with
  | Tests tbits ts =>
      match own_scores (s_den s) (s_spacing s) (match m with Add => false | _ => true end) law kd tbits ts with
      | Some values => Some (0, values)
      | None => None
      end
  | Scores infinite values => Some (infinite, values)
  end.
Fixpoint scores_of (m : mark) (s : section) (steps : list (Z * text)) (ks : list kind) (ts : list tested) : result (list (option score)) :=
  match steps, ks, ts with
  | (_, law) :: steps', kd :: ks', t :: ts' =>
      match score_of_kind m s law kd t with
      | Some (infinite, values) =>
          match scores_of m s steps' ks' ts' with
          | Good l => Good (score_of (2 ^ s_bits s) kd infinite values :: l)
          | Bad why => Bad why
          end
      | None => Bad (Wide m law 0)
      end
  | _, _, _ => Good []
  end.

Definition lower_bound (F : file) (s : section) (scores : list (option score)) : option Z :=
  if states_epsilon F s && (0 <=? s_bits s) && (0 <? s_den s) && (0 <? s_spacing s) && (s_spacing s <? s_den s * 2 ^ s_bits s) then
    match all_some scores with
    | None => None
    | Some l =>
        at_least (Cert (s_bits s) (s_den s) (s_spacing s) (c_eps (claim_of F s))
                    (map (fun kd => (g_off (k_grid kd), Glaw 0 nothing nothing 0)) (s_kinds s))
                    (map fst (f_steps F)) (s_prog s) (s_last s)) l
    end
  else None.

(* delta is more than the stated one *)
Definition exceeds (F : file) (s : section) (b : option Z) : bool :=
  match b with Some b => (0 <? snd (f_delta F)) && (fst (f_delta F) * 2 ^ (2 * s_bits s) <? b * snd (f_delta F)) | None => false end.

Definition is_scores (t : tested) : bool := match t with Scores _ _ => true | _ => false end.
Definition said_lower (F : file) (ts : list tested) : lower_verdict :=
  if existsb is_scores ts then RefutedIfListed
  else match relation_of (f_relation F) with Some AddOrRemove | Some ZeroOut => Refuted | _ => RefutedIfLaw end.

Definition judge_direction (F : file) (m : mark) (s : section) (ts : list tested) : lower_answer :=
  match first_of (fun lt => refused_tested (snd (fst lt)) (snd lt)) (combine (f_steps F) ts) with
  | Some why => LowerJudged F [] (NotRefuted why)
  | None =>
      if all_effort F <=? MOST_EFFORT then
        match scores_of m s (f_steps F) (s_kinds s) ts with
        | Bad why => LowerJudged F [] (NotRefuted why)
        | Good l =>
            let b := lower_bound F s l in
            LowerJudged F [b] (if exceeds F s b then said_lower F ts else NotRefuted NotShown)
        end
      else TooLargeRefutation
  end.

Definition refute_text (t : text) : lower_answer :=
  match read_refuting t with
  | None => NoRefutation
  | Some (Refutation F tests) =>
      if forallb (fun ms => small (snd ms)) (f_sections F) then
        match refused_law F with
        | Some why => LowerJudged F [] (NotRefuted why)
        | None =>
            match f_sections F, tests with
            | [(Both, _)], _ => LowerJudged F [] (NotRefuted Directions)
            | [(m, s)], [ts] => judge_direction F m s ts
            | _, _ => LowerJudged F [] (NotRefuted Directions)
            end
        end
      else TooLargeRefutation
  end.
