(* Scores: what is computed. Integers and lists only. docs/guarantees_lower.md, L2 and L4. *)
Require Import ZArith List Evr.Integers Evr.Product.
Import ListNotations.
Open Scope Z_scope.

(* (p, q) at the places c_first, c_first + 1, ...: at most the chance of the place under P, at least e^loss times that under Q. *)
Record chances := Chances { c_first : Z; c_list : list (Z * Z) }.
(* On the fine grid, on the coarse grid, and an infinite loss. *)
Record score := Score { t_halv : Z; t_fine : chances; t_coarse : chances; t_infi : Z }.

Definition none : chances := Chances 0 [].
Definition padd (a b : Z * Z) : Z * Z := (fst a + fst b, snd a + snd b).
Definition ps (l : list (Z * Z)) : list Z := map_t _ _ fst l.
Definition qs (l : list (Z * Z)) : list Z := map_t _ _ snd l.
Fixpoint zip_a (p q : list Z) (acc : list (Z * Z)) : list (Z * Z) :=
  match p, q with a :: p', b :: q' => zip_a p' q' ((a, b) :: acc) | _, _ => back acc end.
Definition zip p q := zip_a p q [].

Definition pmul (l m : list (Z * Z)) : list (Z * Z) := zip (kmul (ps l) (ps m)) (kmul (qs l) (qs m)).
Definition cmul (M N : chances) : chances := Chances (c_first M + c_first N) (pmul (c_list M) (c_list N)).
Definition cadd (M N : chances) : chances :=
  match c_list M, c_list N with
  | [], _ => N
  | _, [] => M
  | _, _ =>
      let low := Z.min (c_first M) (c_first N) in
      Chances low (gadd_a padd (zeros (0, 0) (c_first M - low) (c_list M)) (zeros (0, 0) (c_first N - low) (c_list N)) [])
  end.
(* places below k, and the others *)
Definition cunder (M : chances) (k : Z) : chances := Chances (c_first M) (take_t _ (c_list M) (k - c_first M)).
Definition cfrom (M : chances) (k : Z) : chances := Chances (Z.max (c_first M) k) (drop (c_list M) (k - c_first M)).
(* p down, q up *)
Definition cround (S : Z) (M : chances) : chances :=
  Chances (c_first M) (map_t _ _ (fun a => (fst a / S, cdiv (snd a) S)) (c_list M)).

(* L4.1: the places of each cell of [w] go to its middle; w are their weights for q, over Q *)
Fixpoint merged (fuel : list (Z * Z)) (Q : Z) (w : list Z) (l acc : list (Z * Z)) : list (Z * Z) :=
  match l, fuel with
  | _ :: _, _ :: fuel' =>
      let '(b, r) := split_t _ _ w l in merged fuel' Q w r ((zsum_t (ps b), cdiv (dot_t (qs b) w) Q) :: acc)
  | _, _ => back acc
  end.
Definition nearest (Q size : Z) (w : list Z) (M : chances) : chances :=
  match c_list M with
  | [] => M
  | _ =>
      let low := (c_first M + size / 2) / size in
      let l := zeros (0, 0) (c_first M + size / 2 - low * size) (c_list M) in
      Chances low (merged l Q w l [])
  end.

Section ops.
  Variables (S Q : Z).
  Variable weights : Z -> Z -> list Z.   (* from a to b halvings, over Q *)
  Variable decay : Z -> Z.                (* of k coarse places: at least Q e^(-k H) *)

  (* L4.2: what is below the floor is given up, what is above the top is put there *)
  Definition cut (floor top : Z) (M : chances) : chances :=
    let inside := cfrom M floor in
    let above := cfrom inside (top + 1) in
    let step := decay 1 in
    let kept := fold_left (fun kept q => cdiv ((q * Q + kept) * step) Q) (back (qs (c_list above))) 0 in
    cadd (cunder inside (top + 1))
      (Chances top [(zsum_t (ps (c_list above)), cdiv (kept * decay (c_first above - top - 1)) (Q * Q))]).

  Definition sc_grid (a b : Z) (M : chances) : chances := if a <=? b then M else nearest Q (2 ^ (a - b)) (weights a b) M.
  Definition sc_on_coarse (X : score) : chances := sc_grid (t_halv X) 0 (t_fine X).
  Definition sc_coarse (X : score) : chances := cadd (t_coarse X) (sc_on_coarse X).
  Definition sc_at (b : Z) (X : score) : score :=
    if t_halv X <=? b then X
    else if b =? 0 then Score 0 none (sc_coarse X) (t_infi X)
    else Score b (sc_grid (t_halv X) b (t_fine X)) (t_coarse X) (t_infi X).

  (* 1 - (1 - a)(1 - b), rounded down *)
  Definition sc_either (a b : Z) : Z := a + b - cdiv (a * b) S.

  (* L4.3 *)
  Definition sc_times (X0 Y0 : score) : score :=
    let a := Z.min (t_halv X0) (t_halv Y0) in
    let X := sc_at a X0 in
    let Y := sc_at a Y0 in
    Score a (cround S (cmul (t_fine X) (t_fine Y)))
      (cround S (cadd (cmul (t_coarse X) (cadd (sc_on_coarse Y) (t_coarse Y))) (cmul (sc_on_coarse X) (t_coarse Y))))
      (sc_either (t_infi X) (t_infi Y)).

  Definition sc_within (w : window) (X0 : score) : score :=
    let X := sc_at (Z.max 0 (w_halv w)) X0 in
    let rest := cfrom (t_fine X) (w_low w) in
    let ends := sc_grid (t_halv X) 0 (cadd (cunder (t_fine X) (w_low w)) (cfrom rest (w_high w + 1))) in
    Score (t_halv X) (cunder rest (w_high w + 1)) (cut (w_floor w) (w_top w) (cadd (t_coarse X) ends)) (t_infi X).
End ops.

(* L5: the sum of p - e^(epsilon - loss) q where it is positive; factor at least Q e^(epsilon - loss) at the first place *)
Fixpoint gains (Q step factor : Z) (l : list (Z * Z)) (sum : Z) : Z :=
  match l with
  | [] => sum
  | (p, q) :: l' => gains Q step (cdiv (factor * step) Q) l' (sum + Z.max 0 (p - cdiv (factor * q) Q))
  end.
