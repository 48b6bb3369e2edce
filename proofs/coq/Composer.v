(* The checker: what is extracted. *)
Require Import ZArith List Bool Evr.Integers Evr.Product Evr.Powers.
Import ListNotations.
Open Scope bool_scope.
Open Scope Z_scope.

Record cert := Cert {
  bits : Z;                          (* masses are in units of 2^-bits *)
  den : Z;                           (* of all rational numbers below *)
  spacing : Z;                       (* of the coarse grid, over den *)
  eps : Z;                           (* epsilon, over den *)
  kinds : list (Z * glaw);           (* of each kind of step: offset over den, its law on the grid *)
  counts : list Z;                   (* how many steps of each kind *)
  prog : list (Z * Z * window);      (* products of registers, each with its window *)
  last : Z * Z                       (* the two halves *)
}.
(* Registers: 0 is no step, 1 .. the kinds, then one for each product. *)

Definition guard := 48.

Fixpoint get {A} (l : list A) (i : Z) : option A :=
  match l with [] => None | a :: l' => if i =? 0 then Some a else get l' (i - 1) end.

Section check.
  Variable C : cert.
  Definition SS := 2 ^ bits C.
  Definition WW := 2 ^ (bits C + guard).
  Definition sqs := Z.to_nat (bits C + 150).
  Definition QQ := 2 ^ (2 * bits C + 300).
  Definition shC (a b : Z) := shares sqs QQ SS (spacing C) (den C * 2 ^ a) (a - b).
  Definition down (W n : Z) := exp_down sqs QQ n (den C) * W / QQ.   (* at most W e^(n/den) *)

  Definition reg := (list Z * glaw)%type.

  Definition one_hot (k : nat) : list Z := map (fun j => if Nat.eqb j k then 1 else 0) (seq 0 (length (kinds C))).
  Definition unit_reg : reg := (map (fun _ => 0) (kinds C), Glaw 0 nothing (Masses 0 [SS]) 0).
  Definition start : list reg :=
    unit_reg :: map (fun ks => (one_hot (fst ks), snd (snd ks))) (combine (seq 0 (length (kinds C))) (kinds C)).

  Definition product (E : Z) (w : window) (a b : reg) : reg :=
    (zadd (fst a) (fst b), within SS shC E w (times SS kmul shC (snd a) (snd b))).

  Definition square_reg (E : Z) (w : window) (a : reg) : reg :=
    (zadd (fst a) (fst a), within SS shC E w (square SS kmul shC ksqr (snd a))).

  Fixpoint run (E : Z) (p : list (Z * Z * window)) (rs : list reg) : option (list reg) :=
    match p with
    | [] => Some rs
    | (i, j, w) :: p' =>
        match get rs i, get rs j with
        | Some a, Some b => run E p' (rs ++ [if i =? j then square_reg E w a else product E w a b])
        | _, _ => None
        end
    end.

  Fixpoint same (a b : list Z) : bool :=
    match a, b with [], [] => true | x :: a', y :: b' => (x =? y) && same a' b' | _, _ => false end.

  Definition finish (a b : reg) : Z :=
    let o := dot (counts C) (map fst (kinds C)) in
    let cut := (eps C - o) / spacing C in
    let M := all_coarse SS shC (snd a) in
    let N := all_coarse SS shC (snd b) in
    let I := either SS (infi (snd a)) (infi (snd b)) in
    if cut <? first M + first N - 2 ^ 26 then SS * SS
    else Z.min (SS * SS)
      (last_sum (2 ^ guard) WW (down WW (- spacing C)) (down WW (eps C - o - cut * spacing C)) cut M N + I * SS).

  Definition check : option Z :=
    match run (down SS (- spacing C)) (prog C) start with
    | None => None
    | Some rs =>
        match get rs (fst (last C)), get rs (snd (last C)) with
        | Some a, Some b => if same (zadd (fst a) (fst b)) (counts C) then Some (finish a b) else None
        | _, _ => None
        end
    end.
End check.
