(* One step in integers: from enclosures of its curve (S3, S4.1), or from its outcomes (S3). *)
Require Import ZArith List Bool Evr.Integers Evr.Product Evr.Powers Evr.Composer.
Import ListNotations.
Open Scope bool_scope.
Open Scope Z_scope.

(* Places in units of the fine grid, in order: coarse ones from g_floor, fine ones from g_ffirst, coarse ones from g_hfirst. *)
Record grid := Grid {
  g_off : Z;                            (* loss of place 0, over the denominator *)
  g_halv : Z;                           (* a coarse place is 2^g_halv fine ones *)
  g_floor : Z; g_low : Z;               (* first coarse place, and how many *)
  g_ffirst : Z; g_fine : Z;             (* first fine place, and how many *)
  g_hfirst : Z; g_high : Z }.           (* first coarse place above them, and how many *)

(* What is known of a step. Its meaning: [listed_truly] in Statement.v. *)
Inductive source :=
  | Curve (values : list (Z * Z))                             (* (v, d): v <= 2^vbits H <= v + d, at each place *)
  | Outcomes (infinite : Z) (sets : list (Z * (Z * Z)))       (* (cell, (p, l)): mass at most p, loss at most l *)
  | Own.                                                      (* nothing is listed: the checker makes a Curve of it (Judge.fill) *)
Record kind := Kind { k_grid : grid; k_vbits : Z; k_source : source }.

Fixpoint arith {A} (p step : Z) (l : list A) : list Z :=
  match l with [] => [] | _ :: l' => p :: arith (p + step) step l' end.
Fixpoint rising (l : list Z) : bool :=
  match l with a :: l' => (match l' with b :: _ => a <? b | [] => true end) && rising l' | [] => true end.

(* a curve is between 0 and 1, and falls: what is not cannot be meant *)
Fixpoint falls (most : Z) (values : list (Z * Z)) : bool :=
  match values with [] => true | (v, d) :: values' => (0 <=? v) && (v <=? most) && falls (v + d) values' end.
Definition sane (V : Z) (s : source) : bool := match s with Curve values => falls V values | _ => true end.

Definition size (g : grid) : Z := 2 ^ g_halv g.
Definition run_of (n : Z) : list unit := zeros tt n [].
Definition places (g : grid) : list Z :=
  arith (g_floor g * size g) (size g) (run_of (g_low g)) ++ arith (g_ffirst g) 1 (run_of (g_fine g)) ++
  arith (g_hfirst g * size g) (size g) (run_of (g_high g)).

Section one.
  Variables (S Q V : Z).
  Variable sb : Z -> Z * Z.     (* of a width w in places: bounds of Q e^(-w fine) *)

  (* S3 by the curve: bounds of V G_j *)
  Definition gbounds (w v d v' d' : Z) : Z * Z :=
    let '(slo, shi) := sb w in
    (if Q <=? shi then V else cdiv (Q * (v + d) - shi * v') (Q - shi),
     if Q <=? slo then 0 else (Q * v - slo * (v' + d')) / (Q - slo)).

  Fixpoint mlist (gu : Z) (ps : list Z) (vs : list (Z * Z)) : list Z * Z :=
    match ps, vs with
    | p :: ps', (v, d) :: vs' =>
        let '(gu', gl') :=
          match ps', vs' with
          | p' :: _, (v', d') :: _ => gbounds (p' - p) v d v' d'
          | _, _ => (v + d, v)
          end in
        let '(ml, mi) := mlist gu' ps' vs' in
        (Z.max 0 (cdiv ((gu - gl') * S) V) :: ml, mi)
    | _, _ => ([], cdiv (gu * S) V)
    end.

  (* S3 by outcomes. Cell j reaches from place j to the next one, the last cell to infinity. *)
  Variable eb : Z -> Z * Z.     (* of an amount of loss: bounds of Q e^(-amount) *)
  Variable loss_at : Z -> Z.    (* of a place, in the unit of the sets' losses *)

  (* of the mass at a loss that is [a] beyond the lower end of its cell: bounds of Q times the shares up and down *)
  Definition shares_of (width : option Z) (a : Z) : Z * Z :=
    if a <=? 0 then (0, Q)
    else
      let '(elo, ehi) := eb a in
      match width with
      | None => (Q - elo, ehi)
      | Some w =>
          let '(slo, shi) := sb w in
          (if Q <=? shi then Q else Z.min Q (cdiv ((Q - elo) * Q) (Q - shi)),
           if Q <=? slo then Q else Q - Z.max 0 ((Q - ehi) * Q / (Q - slo)))
      end.

  (* the sets of cell j: what goes to its lower and to its upper end, in units 1/(Q V), and the sets that follow *)
  Fixpoint cell (j p : Z) (next : option Z) (sets : list (Z * (Z * Z))) (down up : Z) : option (Z * Z * list (Z * (Z * Z))) :=
    match sets with
    | (c, (m, l)) :: sets' =>
        if c =? j then
          if (0 <=? m) && match next with Some p' => l <=? loss_at p' | None => true end then
            let '(s, d) := shares_of (match next with Some p' => Some (p' - p) | None => None end) (l - loss_at p) in
            cell j p next sets' (down + m * d) (up + m * s)
          else None
        else Some (down, up, sets)
    | [] => Some (down, up, [])
    end.

  Fixpoint olist (j p : Z) (ps : list Z) (sets : list (Z * (Z * Z))) (here infinite : Z) (out : list Z) : option (list Z * Z) :=
    match cell j p (match ps with p' :: _ => Some p' | [] => None end) sets here 0 with
    | None => None
    | Some (down, up, rest) =>
        let out' := cdiv (down * S) (V * Q) :: out in
        match ps, rest with
        | p' :: ps', _ => olist (j + 1) p' ps' rest up infinite out'
        | [], [] => Some (rev_append out' [], cdiv ((up + infinite * Q) * S) (V * Q))
        | [], _ => None
        end
    end.
End one.

Fixpoint arith_a {A} (p step : Z) (l : list A) (acc : list Z) : list Z :=
  match l with [] => back acc | _ :: l' => arith_a (p + step) step l' (p :: acc) end.
Definition arith_t A p step (l : list A) := arith_a p step l [].
Fixpoint mlist_a (S Q V : Z) (sb : Z -> Z * Z) (gu : Z) (ps : list Z) (vs : list (Z * Z)) (acc : list Z) : list Z * Z :=
  match ps, vs with
  | p :: ps', (v, d) :: vs' =>
      let '(gu', gl') :=
        match ps', vs' with
        | p' :: _, (v', d') :: _ => gbounds Q V sb (p' - p) v d v' d'
        | _, _ => (v + d, v)
        end in
      mlist_a S Q V sb gu' ps' vs' (Z.max 0 (cdiv ((gu - gl') * S) V) :: acc)
  | _, _ => (back acc, cdiv (gu * S) V)
  end.
Definition mlist_t S Q V sb gu ps vs := mlist_a S Q V sb gu ps vs [].
Definition places_t (g : grid) : list Z :=
  app_t _ (arith_t _ (g_floor g * size g) (size g) (run_of (g_low g)))
    (app_t _ (arith_t _ (g_ffirst g) 1 (run_of (g_fine g))) (arith_t _ (g_hfirst g * size g) (size g) (run_of (g_high g)))).

Definition step_law (sq : nat) (Q S den spacing : Z) (k : kind) : option (Z * glaw) :=
  let g := k_grid k in
  let fine := den * size g in
  let bounds n d := (exp_down sq Q (- n) d, exp_up sq Q n d) in
  let b1 := bounds spacing fine in
  let b2 := bounds (spacing * size g) fine in
  let sb w := if w =? 1 then b1 else if w =? size g then b2 else bounds (spacing * w) fine in
  let V := 2 ^ k_vbits k in
  let ps := places_t g in
  if (0 <=? g_halv g) && (0 <=? k_vbits k) && rising ps && sane V (k_source k) then
    match ps with
    | [] => None
    | p :: ps' =>
        match match k_source k with
              | Curve values => Some (mlist_t S Q V sb V ps values)
              | Outcomes infinite sets =>
                  olist S Q V sb (fun a => bounds a (fine * V)) (fun q => (g_off g * size g + q * spacing) * V)
                    0 p ps' sets 0 infinite []
              | Own => None
              end with
        | None => None
        | Some (ml, mi) =>
            let '(m1, r1) := split_t _ _ (run_of (g_low g)) ml in
            let '(m2, m3) := split_t _ _ (run_of (g_fine g)) r1 in
            Some (g_off g, Glaw (g_halv g) (Masses (g_ffirst g) m2)
                             (madd (Masses (g_floor g) m1) (Masses (g_hfirst g) m3)) (Z.min S mi))
        end
    end
  else None.

Fixpoint all_some {A} (l : list (option A)) : option (list A) :=
  match l with
  | [] => Some []
  | None :: _ => None
  | Some a :: l' => match all_some l' with None => None | Some m => Some (a :: m) end
  end.

(* One direction: grid, epsilon, what is known of each kind of step, how many there are, and the plan. *)
Record claim := Claim {
  c_bits : Z; c_den : Z; c_spacing : Z; c_eps : Z;
  c_kinds : list kind; c_counts : list Z;
  c_prog : list (Z * Z * window); c_last : Z * Z }.

Definition verify (c : claim) : option Z :=
  let base := Cert (c_bits c) (c_den c) (c_spacing c) (c_eps c) [] [] [] (0, 0) in
  if (0 <=? c_bits c) && (0 <? c_den c) && (0 <? c_spacing c) then
    match all_some (map (step_law (sqs base) (QQ base) (SS base) (c_den c) (c_spacing c)) (c_kinds c)) with
    | None => None
    | Some ks => check (Cert (c_bits c) (c_den c) (c_spacing c) (c_eps c) ks (c_counts c) (c_prog c) (c_last c))
    end
  else None.
