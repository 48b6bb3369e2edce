(* The libraries, settings and two notations that all files about measures share. *)
From mathcomp Require Export all_ssreflect ssralg ssrnum interval.
From mathcomp.classical Require Export boolp classical_sets functions cardinality fsbigop mathcomp_extra set_interval.
From mathcomp.analysis Require Export reals ereal Rstruct signed topology normedtype numfun sequences measure lebesgue_measure lebesgue_integral.
From HB Require Export structures.
Require Export Reals Lra Lia List ZArith.
Export Order.TTheory GRing.Theory Num.Def Num.Theory.
#[export] Set Implicit Arguments.
#[export] Unset Strict Implicit.
#[export] Unset Printing Implicit Defensive.

Notation RR := real_realType.
Notation leb := (@lebesgue_measure RR).
