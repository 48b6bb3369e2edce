(* The text of a proof file, read. docs/proof_format.md says what it holds. Everything is a loop: texts are long. *)
Require Import ZArith List Bool String Ascii.
Require Import Evr.Integers Evr.Composer Evr.Step.
Import ListNotations.
Open Scope bool_scope.
Open Scope Z_scope.

Definition text := list Z.                     (* codes of characters *)
Definition codes (s : string) : text := map (fun c => Z.of_N (N_of_ascii c)) (list_ascii_of_string s).

Inductive mark := Remove | Add | Both.
Record section := Section {
  s_bits : Z; s_den : Z; s_spacing : Z; s_kinds : list kind; s_prog : list (Z * Z * window); s_last : Z * Z }.
Record file := File {
  f_relation : text;
  f_epsilon : Z * Z; f_delta : Z * Z;          (* numerator, denominator *)
  f_steps : list (Z * text);                   (* how many, of which law *)
  f_sections : list (mark * section) }.

(* Words: runs of visible characters, each ended by one space or one end of line. *)
Fixpoint words (l now : text) (out : list text) : option (list text) :=
  match l with
  | [] => match now with [] => Some (rev_append out []) | _ => None end
  | c :: l' =>
      if (c =? 10) || (c =? 32) then match now with [] => None | _ => words l' [] (rev_append now [] :: out) end
      else if (33 <=? c) && (c <=? 126) then words l' (c :: now) out
      else None
  end.

Definition MOST_DIGITS := 8000.
Definition MOST_WORD_BITS := 40000.
Definition MOST_ITEMS := 2 ^ 20.
Definition MOST_ORDER := 64.

Fixpoint digits (l : text) (x : Z) : option Z :=
  match l with
  | [] => Some x
  | c :: l' => if (48 <=? c) && (c <=? 57) then digits l' (10 * x + (c - 48)) else None
  end.
Definition natural (w : text) : option Z :=
  match w with [] => None | _ => if zlen w <=? MOST_DIGITS then digits w 0 else None end.
Definition integer (w : text) : option Z :=
  match w with
  | c :: l => if c =? 45 then match natural l with Some x => Some (- x) | None => None end else natural w
  | [] => None
  end.
Fixpoint cut_at (c : Z) (l before : text) : text * text :=
  match l with [] => (rev_append before [], []) | a :: l' => if a =? c then (rev_append before [], l') else cut_at c l' (a :: before) end.
Definition fraction (w : text) : option (Z * Z) :=
  let '(a, b) := cut_at 47 w [] in
  match natural a, natural b with Some p, Some q => if 0 <? q then Some (p, q) else None | _, _ => None end.

(* Packed integers: characters '0' .. 'o' are 0 .. 63; five bits each, lowest first, 32 more if the number goes on;
   even numbers are 0, 1, 2, ..., odd ones -1, -2, ... *)
Definition signed (z : Z) : Z := let h := z / 2 in if z =? 2 * h then h else - (h + 1).
Fixpoint unpacked (l : text) (x at_bit : Z) (out : list Z) : option (list Z) :=
  match l with
  | [] => if at_bit =? 0 then Some (rev_append out []) else None
  | c :: l' =>
      let s := c - 48 in
      if (0 <=? s) && (s <? 64) && (at_bit <=? MOST_WORD_BITS) then
        if s <? 32 then unpacked l' 0 0 (signed (x + Z.shiftl s at_bit) :: out)
        else unpacked l' (x + Z.shiftl (s - 32) at_bit) (at_bit + 5) out
      else None
  end.
Fixpoint sums (l : list Z) (s : Z) (out : list Z) : list Z :=
  match l with [] => rev_append out [] | a :: l' => sums l' (s + a) (s + a :: out) end.
Definition times_z {A} (n : Z) (f : A -> A) (a : A) : A := match n with Zpos p => Pos.iter f a p | _ => a end.

Definition reader (A : Type) := list text -> option (A * list text).
Definition ret {A} (a : A) : reader A := fun ws => Some (a, ws).
Definition bind {A B} (p : reader A) (f : A -> reader B) : reader B :=
  fun ws => match p ws with Some (a, ws') => f a ws' | None => None end.
Notation "'do' x <- p ; q" := (bind p (fun x => q)) (at level 200, x name, p at level 100, q at level 200).

Definition any : reader text := fun ws => match ws with w :: ws' => Some (w, ws') | [] => None end.
Definition by_ {A} (f : text -> option A) : reader A :=
  fun ws => match ws with w :: ws' => match f w with Some a => Some (a, ws') | None => None end | [] => None end.
Definition int := by_ integer.
Definition nat_below (most : Z) : reader Z :=
  by_ (fun w => match natural w with Some n => if n <=? most then Some n else None | None => None end).
Definition keyword (w : text) : reader unit := by_ (fun v => if same v w then Some tt else None).
Definition many {A} (p : reader A) (n : Z) : reader (list A) := fun ws =>
  if n <=? MOST_ITEMS then
    match times_z n (fun st => match st with
                               | Some (out, ws1) => match p ws1 with Some (a, ws2) => Some (a :: out, ws2) | None => None end
                               | None => None
                               end) (Some ([], ws)) with
    | Some (out, ws1) => Some (rev_append out [], ws1)
    | None => None
    end
  else None.

(* n integers by their differences of some order: the order, then the packed word, or "-" where there are none *)
Definition packed (n : Z) : reader (list Z) :=
  do order <- nat_below MOST_ORDER;
  by_ (fun w => match (if same w [45] then Some [] else unpacked w 0 0 []) with
                | Some l => if zlen l =? n then Some (times_z order (fun m => sums m 0 []) l) else None
                | None => None
                end).

Definition w_proof := Eval vm_compute in codes "evr-proof".
Definition w_version := Eval vm_compute in codes "2".
Definition w_relation := Eval vm_compute in codes "relation".
Definition w_epsilon := Eval vm_compute in codes "epsilon".
Definition w_delta := Eval vm_compute in codes "delta".
Definition w_steps := Eval vm_compute in codes "steps".
Definition w_directions := Eval vm_compute in codes "directions".
Definition w_direction := Eval vm_compute in codes "direction".
Definition w_remove := Eval vm_compute in codes "remove".
Definition w_add := Eval vm_compute in codes "add".
Definition w_both := Eval vm_compute in codes "both".
Definition w_grid := Eval vm_compute in codes "grid".
Definition w_curve := Eval vm_compute in codes "curve".
Definition w_outcomes := Eval vm_compute in codes "outcomes".
Definition w_own := Eval vm_compute in codes "own".
Definition w_products := Eval vm_compute in codes "products".
Definition w_halves := Eval vm_compute in codes "halves".
Definition w_end := Eval vm_compute in codes "end".

Fixpoint with_widths (vs : list Z) (wide width : Z) (out : list (Z * Z)) : list (Z * Z) :=
  match vs with
  | [] => rev_append out []
  | v :: vs' => with_widths vs' (wide - 1) width ((v, if 0 <? wide then width else 0) :: out)
  end.
Fixpoint zipped (cs ms ls : list Z) (out : list (Z * (Z * Z))) : list (Z * (Z * Z)) :=
  match cs, ms, ls with
  | c :: cs', m :: ms', l :: ls' => zipped cs' ms' ls' ((c, (m, l)) :: out)
  | _, _, _ => rev_append out []
  end.

Definition read_grid : reader grid :=
  do off <- int; do halv <- nat_below 26; do floor <- int; do low <- nat_below MOST_ITEMS;
  do ffirst <- int; do fine <- nat_below MOST_ITEMS; do hfirst <- int; do high <- nat_below MOST_ITEMS;
  ret (Grid off halv floor low ffirst fine hfirst high).

Definition read_kind : reader kind :=
  do name <- any; do g <- read_grid; do vbits <- nat_below 20000;
  if same name w_curve then
    do width <- nat_below MOST_ITEMS; do exact <- nat_below MOST_ITEMS;
    do a <- packed (g_low g); do b <- packed (g_fine g); do c <- packed (g_high g);
    ret (Kind g vbits (Curve (with_widths (rev_append (rev_append a []) (rev_append (rev_append b []) c))
                                (g_low g + g_fine g + g_high g - exact) width [])))
  else if same name w_outcomes then
    do infinite <- by_ natural; do n <- nat_below MOST_ITEMS;
    do cs <- packed n; do ms <- packed n; do ls <- packed n;
    ret (Kind g vbits (Outcomes infinite (zipped cs ms ls [])))
  else if same name w_own then ret (Kind g vbits Own)
  else fun _ => None.

Definition read_product : reader (Z * Z * window) :=
  do i <- int; do j <- int; do halv <- nat_below 26; do low <- int; do high <- int; do floor <- int; do top <- int;
  ret (i, j, Window halv low high floor top).

Definition read_section (kinds : Z) : reader (mark * section) :=
  do _ <- keyword w_direction; do name <- any;
  do _ <- keyword w_grid; do bits <- nat_below 6000; do den <- by_ natural; do spacing <- by_ natural;
  do ks <- many read_kind kinds;
  do _ <- keyword w_products; do n <- nat_below 1000; do prog <- many read_product n;
  do _ <- keyword w_halves; do a <- int; do b <- int;
  let s := Section bits den spacing ks prog (a, b) in
  if same name w_remove then ret (Remove, s)
  else if same name w_add then ret (Add, s)
  else if same name w_both then ret (Both, s)
  else fun _ => None.

Definition read_step : reader (Z * text) := do n <- by_ natural; do law <- any; ret (n, law).

Definition read_file : reader file :=
  do _ <- keyword w_proof; do _ <- keyword w_version;
  do _ <- keyword w_relation; do relation <- any;
  do _ <- keyword w_epsilon; do epsilon <- by_ fraction;
  do _ <- keyword w_delta; do delta <- by_ fraction;
  do _ <- keyword w_steps; do n <- nat_below 1000; do steps <- many read_step n;
  do _ <- keyword w_directions; do m <- nat_below 2; do sections <- many (read_section n) m;
  do _ <- keyword w_end;
  ret (File relation epsilon delta steps sections).

Definition read (t : text) : option file :=
  match words t [] [] with
  | Some ws => match read_file ws with Some (F, []) => Some F | _ => None end
  | None => None
  end.
