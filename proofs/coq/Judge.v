(* A proof file, judged: what is extracted. *)
Require Import ZArith List Bool Evr.Integers Evr.Composer Evr.Step Evr.Reader Evr.Laws Evr.Enclose.
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
  match k_source k with Outcomes _ sets => fold_left (fun n _ => n + 1) sets 0 | _ => 0 end.
Definition work (s : section) : Z :=
  let unit := s_bits s + 100 in
  let cell := fold_left (fun a k => Z.max a (2 ^ g_halv (k_grid k))) (s_kinds s) 1 in
  fold_left (fun a p => a + (span (snd p) + cell) * unit) (s_prog s) 0 +
  fold_left (fun a k => a + (sets_of k * unit + cell) * unit) (s_kinds s) 0.
Definition small (s : section) : bool :=
  forallb window_small (s_prog s) && forallb grid_small (s_kinds s) && (work s <=? MOST_WORK).

(* Why a file is refused. *)
Inductive reason :=
  | NoRelation                                (* an unknown word in place of the relation *)
  | NotUnder (law : text)                     (* this law has no meaning under the file's relation *)
  | Directions                                (* neither "remove" and "add", nor "both" *)
  | Listed (law : text)                       (* numbers are listed for a law that is computed *)
  | NotOwn (law : text)                       (* nothing is listed for a law that is not computed *)
  | BadNumbers (law : text)                   (* a law that is computed, with numbers that it cannot have *)
  | OneWay (law : text)                       (* computed once for both directions, and they differ *)
  | Wide (m : mark) (law : text) (place : Z)  (* the enclosure at this place is wider than one unit *)
  | NotShown.                                 (* the bound of a section is more than delta, or there is none *)

(* What is said of a file. *)
Inductive verdict :=
  | Proved                                    (* for DP-SGD: Training.v says what this means *)
  | IfListed                                  (* if the listed numbers are right: Statement.v says what this means *)
  | IfLaw                                     (* if the law is right for replace-one neighbours *)
  | Refused (why : reason).
Inductive answer :=
  | Unreadable                                                  (* not a proof file *)
  | TooLarge                                                    (* beyond the limits *)
  | Judged (F : file) (bounds : list (option Z)) (v : verdict).  (* bounds of the sections, over 2^(2 bits) *)

Definition first_of {A} (f : A -> option reason) : list A -> option reason :=
  fix go l := match l with [] => None | a :: l' => match f a with Some why => Some why | None => go l' end end.

Definition refused_law (F : file) : option reason :=
  match relation_of (f_relation F) with
  | None => Some NoRelation
  | Some R => first_of (fun cl => if under R (snd cl) then None else Some (NotUnder (snd cl))) (f_steps F)
  end.
Definition refused_kind (m : mark) (law : text) (kd : kind) : option reason :=
  if own_law law then
    match read_own law, k_source kd with
    | None, _ => Some (BadNumbers law)
    | Some o, Own => match m with Both => if o_a o =? o_b o then None else Some (OneWay law) | _ => None end
    | Some _, _ => Some (Listed law)
    end
  else match k_source kd with Own => Some (NotOwn law) | _ => None end.
Definition refused_section (F : file) (ms : mark * section) : option reason :=
  first_of (fun lk => refused_kind (fst ms) (snd (fst lk)) (snd lk)) (combine (f_steps F) (s_kinds (snd ms))).
Definition refused (F : file) : option reason :=
  match refused_law F with
  | Some why => Some why
  | None => if both_directions F then first_of (refused_section F) (f_sections F) else Some Directions
  end.

Definition all_effort (F : file) : Z :=
  fold_left (fun a ms => fold_left (fun a lk => a + effort (s_den (snd ms)) (s_spacing (snd ms)) (snd (fst lk)) (snd lk))
                           (combine (f_steps F) (s_kinds (snd ms))) a) (f_sections F) 0.

Definition is_listed (k : kind) : bool := match k_source k with Own => false | _ => true end.
Definition said (F : file) : verdict :=
  if existsb (fun ms => existsb is_listed (s_kinds (snd ms))) (f_sections F) then IfListed
  else match relation_of (f_relation F) with Some AddOrRemove | Some ZeroOut => Proved | _ => IfLaw end.

Inductive result (A : Type) := Good (a : A) | Bad (why : reason).
Arguments Good {A}. Arguments Bad {A}.

Section judge.
  Variable bound_of : claim -> option Z.
  Variable compute : Z -> Z -> bool -> text -> kind -> computed.

  (* what is not listed is computed *)
  Definition fill_kind (m : mark) (s : section) (law : text) (kd : kind) : result kind :=
    match k_source kd with
    | Own =>
        match compute (s_den s) (s_spacing s) (match m with Add => false | _ => true end) law kd with
        | Values values => Good (Kind (k_grid kd) (k_vbits kd) (Curve values))
        | Fails i => Bad (Wide m law i)
        end
    | _ => Good kd
    end.
  Fixpoint fill_kinds (m : mark) (s : section) (steps : list (Z * text)) (ks : list kind) : result (list kind) :=
    match steps, ks with
    | (_, law) :: steps', kd :: ks' =>
        match fill_kind m s law kd with
        | Good kd' => match fill_kinds m s steps' ks' with Good l => Good (kd' :: l) | Bad why => Bad why end
        | Bad why => Bad why
        end
    | _, _ => Good []
    end.
  Fixpoint fill (steps : list (Z * text)) (ss : list (mark * section)) : result (list (mark * section)) :=
    match ss with
    | [] => Good []
    | (m, s) :: ss' =>
        match fill_kinds m s steps (s_kinds s) with
        | Good ks =>
            match fill steps ss' with
            | Good l => Good ((m, Section (s_bits s) (s_den s) (s_spacing s) ks (s_prog s) (s_last s)) :: l)
            | Bad why => Bad why
            end
        | Bad why => Bad why
        end
    end.

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
          match refused F with
          | Some why => Judged F [] (Refused why)
          | None =>
              if all_effort F <=? MOST_EFFORT then
                match fill (f_steps F) (f_sections F) with
                | Bad why => Judged F [] (Refused why)
                | Good ss =>
                    let bs := map (fun ms => bound F (snd ms)) ss in
                    Judged F bs (if (0 <? snd (f_delta F)) && all_show F ss bs then said F else Refused NotShown)
                end
              else TooLarge
          end
        else TooLarge
    end.
End judge.

(* What runs. *)
Definition judge_text : text -> answer := judge verify own_values.

(* For pages, which compute the places of own kinds in pieces, on several processors. Pieces.v: all pieces together are [own_values].
   [tasks]: of each kind that [judge] will compute, its section, its number, and how many places it has. *)
Definition own_kinds (number : Z) (s : section) : list (Z * Z * Z) :=
  fold_right (fun kd rest k => match k_source kd with
                               | Own => let g := k_grid kd in (number, k, g_low g + g_fine g + g_high g) :: rest (k + 1)
                               | _ => rest (k + 1)
                               end) (fun _ => []) (s_kinds s) 0.
Definition tasks (t : text) : list (Z * Z * Z) :=
  match read t with
  | Some F =>
      match refused F with
      | None =>
          if forallb (fun ms => small (snd ms)) (f_sections F) && (all_effort F <=? MOST_EFFORT)
          then fold_right (fun ms rest number => own_kinds number (snd ms) ++ rest (number + 1)) (fun _ => []) (f_sections F) 0
          else []
      | Some _ => []
      end
  | None => []
  end.
(* places [from], ..., [from + count - 1] of one of them *)
Definition piece (F : file) (number k from count : Z) : computed :=
  match get (f_sections F) number, get (f_steps F) k with
  | Some (m, s), Some (_, law) =>
      match get (s_kinds s) k with
      | Some kd =>
          own_piece (s_den s) (s_spacing s) (match m with Add => false | _ => true end) law kd
            (take_t _ (drop (places_t (k_grid kd)) from) count) from
      | None => Fails from
      end
  | _, _ => Fails from
  end.
Definition joined (a b : computed) : computed :=
  match a, b with Values l, Values l' => Values (app_t _ l l') | Values _, Fails i => Fails i | Fails i, _ => Fails i end.
