(* The checker as an OCaml program: Z becomes Zz.t (Zarith natively, BigInt in JavaScript). These lines are trusted. *)
Require Import ZArith List.
Require Import Evr.Step Evr.Reader Evr.Enclose Evr.Judge Evr.LowerJudge.
Require Import ExtrOcamlBasic.
Extract Inductive positive => "Zz.t"
  [ "(fun p -> Zz.succ (Zz.shift_left p 1))" "(fun p -> Zz.shift_left p 1)" "Zz.one" ]
  "(fun fI fO fH p -> if Zz.equal p Zz.one then fH () else if Zz.testbit p 0 then fI (Zz.shift_right p 1) else fO (Zz.shift_right p 1))".
Extract Inductive Z => "Zz.t" [ "Zz.zero" "" "Zz.neg" ]
  "(fun f0 fp fn z -> let s = Zz.sign z in if s = 0 then f0 () else if s > 0 then fp z else fn (Zz.neg z))".
Extract Constant Z.add => "Zz.add".
Extract Constant Z.sub => "Zz.sub".
Extract Constant Z.mul => "Zz.mul".
Extract Constant Z.opp => "Zz.neg".
Extract Constant Z.max => "Zz.max".
Extract Constant Z.min => "Zz.min".
Extract Constant Z.eqb => "Zz.equal".
Extract Constant Z.leb => "Zz.leq".
Extract Constant Z.ltb => "Zz.lt".
(* floor, and 0 where the divisor is 0 *)
Extract Constant Z.div => "(fun a b -> if Zz.equal b Zz.zero then Zz.zero else Zz.fdiv a b)".
Extract Constant Z.pow => "(fun a b -> if Zz.sign b < 0 then Zz.zero else Zz.pow a (Zz.to_int b))".
Extract Constant Z.shiftl => "(fun a b -> let n = Zz.to_int b in if n >= 0 then Zz.shift_left a n else Zz.shift_right a (-n))".
Extract Constant Z.shiftr => "(fun a b -> let n = Zz.to_int b in if n >= 0 then Zz.shift_right a n else Zz.shift_left a (-n))".
Extract Constant Z.log2 => "(fun a -> if Zz.sign a <= 0 then Zz.zero else Zz.of_int (Zz.numbits a - 1))".
(* of each product once: Zz.tick shows progress and returns nothing *)
Extract Constant Z.log2_up => "(fun a -> Zz.tick (); if Zz.leq a Zz.one then Zz.zero else Zz.of_int (Zz.numbits (Zz.pred a)))".
Extraction Language OCaml.
Extraction "checker.ml" judge_text judge verify read tasks piece.   (* for pages *)
Extraction "native.ml" judge_text refute_text.
