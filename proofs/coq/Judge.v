(* A proof file, judged: what is extracted, up to loops (Loops.v). *)
Require Import ZArith List Bool Evr.Integers Evr.Composer Evr.Step Evr.Reader.
Import ListNotations.
Open Scope bool_scope.
Open Scope Z_scope.

Definition claim_of (F : file) (s : section) : claim :=
  Claim (s_bits s) (s_den s) (s_spacing s) (fst (f_epsilon F) * s_den s / snd (f_epsilon F))
    (s_kinds s) (map fst (f_steps F)) (s_prog s) (s_last s).

(* epsilon is a multiple of 1 / den *)
Definition states_epsilon (F : file) (s : section) : bool :=
  (0 <? snd (f_epsilon F)) &&
  (fst (f_epsilon F) * s_den s =? fst (f_epsilon F) * s_den s / snd (f_epsilon F) * snd (f_epsilon F)).

(* [remove, add], or one section for both *)
Definition both_directions (F : file) : bool :=
  match f_sections F with
  | [(Both, _)] | [(Remove, _); (Add, _)] => true
  | _ => false
  end.

(* What is computed may not take for ever: places, and masses times bits in all. Nothing rests on these limits. *)
Definition MOST_PLACE := 2 ^ 22.
Definition MOST_WORK := 2 ^ 32.
Definition near (halv z : Z) : bool := (- (MOST_PLACE * 2 ^ halv) <=? z) && (z <=? MOST_PLACE * 2 ^ halv).
Definition window_small (p : Z * Z * window) : bool :=
  let w := snd p in
  near (w_halv w) (w_low w) && near (w_halv w) (w_high w) && near 0 (w_floor w) && near 0 (w_top w).
Definition grid_small (k : kind) : bool :=
  let g := k_grid k in
  near 0 (g_floor g) && near (g_halv g) (g_ffirst g) && near 0 (g_hfirst g).
Definition span (w : window) : Z :=
  Z.max 0 (w_top w - w_floor w) + (if w_halv w =? 0 then 0 else Z.max 0 (w_high w - w_low w)).
Definition sets_of (k : kind) : Z :=
  match k_source k with Curve _ => 0 | Outcomes _ sets => fold_left (fun n _ => n + 1) sets 0 end.
Definition work (s : section) : Z :=
  let unit := s_bits s + 100 in
  let cell := fold_left (fun a k => Z.max a (2 ^ g_halv (k_grid k))) (s_kinds s) 1 in
  fold_left (fun a p => a + (span (snd p) + cell) * unit) (s_prog s) 0 +
  fold_left (fun a k => a + (sets_of k * unit + cell) * unit) (s_kinds s) 0.
Definition small (s : section) : bool :=
  forallb window_small (s_prog s) && forallb grid_small (s_kinds s) && (work s <=? MOST_WORK).

Inductive answer :=
  | Unreadable                                                     (* not a proof file *)
  | TooLarge                                                       (* beyond the limits *)
  | Judged (F : file) (bounds : list (option Z)) (accepted : bool).  (* bounds of the sections, over 2^(2 bits) *)

Section judge.
  Variable bound_of : claim -> option Z.

  Definition bound (F : file) (s : section) : option Z := if states_epsilon F s then bound_of (claim_of F s) else None.
  Definition shows (F : file) (s : section) (b : option Z) : bool :=
    match b with
    | Some b => (0 <=? s_bits s) && (b * snd (f_delta F) <=? fst (f_delta F) * 2 ^ (2 * s_bits s))
    | None => false
    end.
  Fixpoint all_show (F : file) (ss : list (mark * section)) (bs : list (option Z)) : bool :=
    match ss, bs with
    | [], [] => true
    | (_, s) :: ss', b :: bs' => shows F s b && all_show F ss' bs'
    | _, _ => false
    end.

  Definition judge (t : text) : answer :=
    match read t with
    | None => Unreadable
    | Some F =>
        if forallb (fun ms => small (snd ms)) (f_sections F) then
          let bs := map (fun ms => bound F (snd ms)) (f_sections F) in
          Judged F bs ((0 <? snd (f_delta F)) && both_directions F && all_show F (f_sections F) bs)
        else TooLarge
    end.
End judge.

(* what runs *)
Definition judge_text : text -> answer := judge verify.
