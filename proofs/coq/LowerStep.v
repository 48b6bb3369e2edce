(* One step of a refutation, in integers: the chances of its places, from tests of a sampled Gaussian (L3) or listed. *)
Require Import ZArith List Bool.
Require Import Evr.Integers Evr.Powers Evr.Composer Evr.Step Evr.Reader Evr.Laws Evr.Enclose Evr.LowerIntegers.
Import ListNotations.
Open Scope bool_scope.
Open Scope Z_scope.

(* What a file says of a step. Place j is where the outcome is between the thresholds j - 1 and j, on a line on which losses rise. *)
Inductive tested :=
  | Tests (tbits : Z) (thresholds : list Z)                (* over 2^tbits *)
  | Scores (infinite : Z) (chances : list (Z * Z)).        (* (p, q) at each place, over 2^vbits; at most the chance of an infinite loss *)

Section at_precision.
  Variables (B M : Z) (fuel : nat) (m zlo zhi qn qd : Z).
  Variables (noises : (Z * Z) * (Z * Z)) (sign T : Z).

  (* M times the chance of more than t / T with the record, whose mean is sign / noise, and without it *)
  Definition beyond (t : Z) : (Z * Z) * (Z * Z) :=
    let '(lo, hi) := cdf B M fuel m zlo zhi (- t) T in
    let moved cd := cdf B M fuel m zlo zhi (sign * snd cd * T - t * fst cd) (fst cd * T) in
    let '(l1, h1) := moved (fst noises) in
    let '(l2, h2) := moved (snd noises) in
    (((qd - qn) * lo + qn * Z.min l1 l2) / qd, cdiv ((qd - qn) * hi + qn * Z.max h1 h2) qd, (lo, hi)).

  Variables (w : Z) (up : bool) (loss_at : Z -> Z) (D : Z).
  (* p at least and q at most that of the outcomes beyond the threshold before *)
  Fixpoint scored (p q : Z) (places ts : list Z) (out : list (Z * Z)) : option (list (Z * Z)) :=
    match places with
    | [] => Some (back out)
    | place :: places' =>
        let '((plow, phigh), (qlow, qhigh)) :=
          match ts with
          | [] => ((0, 0), (0, 0))
          | t :: _ => let '(with_record, without) := beyond t in if up then (with_record, without) else (without, with_record)
          end in
        match exp_both B M fuel (loss_at place) D with
        | None => None
        | Some (_, power) =>
            let a := Z.max 0 (p - phigh) * 2 ^ w / 2 ^ B in
            let b := cdiv (Z.max 0 (q - qlow) * power) (2 ^ (2 * B - w)) in
            scored plow qhigh places' (tl ts) ((if b =? 0 then 0 else a, b) :: out)
        end
    end.
End at_precision.

Fixpoint not_falling (l : list Z) : bool :=
  match l with a :: l' => (match l' with b :: _ => a <=? b | [] => true end) && not_falling l' | [] => true end.

Definition own_scores (den spacing : Z) (up : bool) (law : text) (kd : kind) (tbits : Z) (ts : list Z) : option (list (Z * Z)) :=
  match read_own law with
  | None => None
  | Some o =>
      let g := k_grid kd in
      let w := k_vbits kd in
      let e := extra den spacing g in
      let noises := multipliers o (w + e + 100) in
      let B2 := 2 * w + 280 + 2 * e in
      let fuel := Z.to_nat (8 * (w + e) + 1200) in
      let m := Z.sqrt (7 * (w + 100 + e) / 5) + 1 in
      let reach := fold_left (fun a t => Z.max a (Z.abs t / 2 ^ tbits)) ts 0 + snd (fst noises) / fst (fst noises) + 2 in
      let B := Z.min B2 (w + e + 90 + 3 * (Z.min m reach * Z.min m reach) / 4) in
      let '(zlo, zhi) := half_z B2 (2 ^ B2) fuel m in
      let zlo := zlo / 2 ^ (B2 - B) in
      let zhi := cdiv zhi (2 ^ (B2 - B)) in
      if (0 <=? w) && (0 <? m) && (0 <? zlo) && (0 <? den) && (0 <=? g_halv g) && (w <=? B) && (B <=? B2) && (0 <=? tbits) && not_falling ts
      then scored B (2 ^ B) fuel m zlo zhi (o_a o) (o_b o) noises (if up then 1 else -1) (2 ^ tbits) w up
             (fun p => g_off g * size g + p * spacing) (den * size g) (2 ^ B) (2 ^ B) (places_t g) ts []
      else None
  end.

(* On the grid, in units of 1/S: p down, q up. *)
Definition score_of (S : Z) (k : kind) (infinite : Z) (values : list (Z * Z)) : option score :=
  let g := k_grid k in
  let V := 2 ^ k_vbits k in
  let ps := places_t g in
  if (0 <=? g_halv g) && (0 <=? k_vbits k) && rising ps && (0 <=? infinite) && forallb (fun a => (0 <=? fst a) && (0 <=? snd a)) values then
    match ps with
    | [] => None
    | _ =>
        let l := map_t _ _ (fun a => (fst a * S / V, cdiv (snd a * S) V)) values in
        let '(l1, r1) := split_t _ _ (run_of (g_low g)) l in
        let '(l2, r2) := split_t _ _ (run_of (g_fine g)) r1 in
        let '(l3, _) := split_t _ _ (run_of (g_high g)) r2 in
        Some (Score (g_halv g) (Chances (g_ffirst g) l2) (cadd (Chances (g_floor g) l1) (Chances (g_hfirst g) l3)) (Z.min S (infinite * S / V)))
    end
  else None.
