(* Words for laws: their form, the relations under which they have a meaning, and the laws that the checker computes itself. *)
Require Import ZArith List Bool String.
Require Import Evr.Integers Evr.Composer Evr.Step Evr.Reader.
Import ListNotations.
Open Scope bool_scope.
Open Scope Z_scope.

(* NAME(ARGUMENT,...,ARGUMENT). Arguments may be laws; a comma in parentheses does not end an argument. *)
Fixpoint arguments (l : text) (depth : Z) (now : text) (out : list text) : option (list text) :=
  match l with
  | [] => None
  | c :: l' =>
      if c =? 40 then arguments l' (depth + 1) (c :: now) out
      else if c =? 41 then
        if 0 <? depth then arguments l' (depth - 1) (c :: now) out
        else match l' with [] => Some (rev_append (rev_append now [] :: out) []) | _ => None end
      else if (c =? 44) && (depth =? 0) then arguments l' depth [] (rev_append now [] :: out)
      else arguments l' depth (c :: now) out
  end.
Definition form (law : text) : option (text * list text) :=
  let '(name, rest) := cut_at 40 law [] in
  match arguments rest 0 [] [] with Some l => Some (name, l) | None => None end.
Definition named (names : list text) (law : text) : bool :=
  match form law with Some (name, _) => existsb (same name) names | None => false end.

Definition w_gaussian := Eval vm_compute in codes "gaussian".
Definition w_gaussians := Eval vm_compute in codes "gaussians".
Definition w_poisson := Eval vm_compute in codes "poisson".
Definition w_mixture := Eval vm_compute in codes "mixture".
Definition w_truncated := Eval vm_compute in codes "truncated".
Definition w_without_replacement := Eval vm_compute in codes "without_replacement".
Definition w_pair := Eval vm_compute in codes "pair".
Definition replacing := Eval vm_compute in map codes ["two_sided"; "replaced"; "labelled"]%string.
Definition in_batches := Eval vm_compute in map codes ["two_sided"; "labelled"]%string.
Definition noises := Eval vm_compute in
  map codes ["gaussian"; "gaussians"; "laplace"; "discrete_laplace"; "discrete_gaussian"; "shifted"]%string.
Definition knowns := Eval vm_compute in map codes ["epsilon_delta"; "zcdp"; "bounded_range"; "outcomes"]%string.

(* ---------- Relations ---------- *)

Inductive relation := AddOrRemove | ZeroOut | ReplaceOne.
Definition w_add_or_remove := Eval vm_compute in codes "add-or-remove".
Definition w_zero_out := Eval vm_compute in codes "zero-out".
Definition w_replace_one := Eval vm_compute in codes "replace-one".
Definition relation_of (w : text) : option relation :=
  if same w w_add_or_remove then Some AddOrRemove
  else if same w w_zero_out then Some ZeroOut
  else if same w w_replace_one then Some ReplaceOne
  else None.

Definition single (R : relation) (law : text) : bool :=
  match form law with
  | None => false
  | Some (name, l) =>
      existsb (same name) (noises ++ knowns) ||
      match R, l with
      | AddOrRemove, [_; inner] =>
          existsb (same name) [w_mixture; w_truncated] || same name w_poisson && named (w_mixture :: noises ++ knowns) inner
      | AddOrRemove, _ => existsb (same name) [w_mixture; w_truncated]
      | ZeroOut, [_; inner] => same name w_mixture || same name w_poisson && named noises inner
      | ZeroOut, _ => same name w_mixture
      | ReplaceOne, [_; inner] =>
          existsb (same name) replacing || same name w_without_replacement && named (in_batches ++ noises ++ knowns) inner
      | ReplaceOne, _ => existsb (same name) replacing
      end
  end.
(* a law has a meaning under a relation *)
Definition under (R : relation) (law : text) : bool :=
  single R law ||
  match form law with Some (name, [one; other]) => same name w_pair && single R one && single R other | _ => false end.

(* ---------- Laws that are computed, not listed ---------- *)

Definition own_noise (law : text) : bool := named [w_gaussian; w_gaussians] law.
Definition own_law (law : text) : bool :=
  own_noise law || match form law with Some (name, [_; inner]) => same name w_poisson && own_noise inner | _ => false end.

(* An integer, or a ratio in lowest terms whose denominator is at least 2: a number has one text. *)
Definition plain_natural (w : text) : option Z :=
  match w with c :: _ :: _ => if c =? 48 then None else natural w | _ => natural w end.
Definition number (w : text) : option (Z * Z) :=
  if existsb (Z.eqb 47) w then
    let '(a, b) := cut_at 47 w [] in
    match plain_natural a, plain_natural b with
    | Some p, Some q => if (1 <=? p) && (2 <=? q) && (Z.gcd p q =? 1) then Some (p, q) else None
    | _, _ => None
    end
  else match plain_natural w with Some p => Some (p, 1) | None => None end.

(* The sampling rate is o_a / o_b; o_c / o_d is the noise multiplier ("gaussian"), or 1 over its square ("gaussians"). *)
Record own := MakeOwn { o_a : Z; o_b : Z; o_c : Z; o_d : Z; o_square : bool }.
Definition own_of (rate : Z * Z) (law : text) : option own :=
  match form law with
  | Some (name, [x]) =>
      match number x with
      | Some (c, d) =>
          if (0 <? c) && (fst rate <=? snd rate) && (same name w_gaussian || same name w_gaussians)
          then Some (MakeOwn (fst rate) (snd rate) c d (same name w_gaussians)) else None
      | None => None
      end
  | _ => None
  end.
Definition read_own (law : text) : option own :=
  match form law with
  | Some (name, [x; inner]) =>
      if same name w_poisson then match number x with Some rate => own_of rate inner | None => None end else None
  | _ => own_of (1, 1) law
  end.
