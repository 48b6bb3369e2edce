(* The curve of a Poisson-sampled Gaussian, enclosed in integers. Everything is over M = 2^B. *)
Require Import ZArith List Bool.
Require Import Evr.Integers Evr.Powers Evr.Composer Evr.Step Evr.Reader Evr.Laws.
Import ListNotations.
Open Scope bool_scope.
Open Scope Z_scope.

Section at_precision.
  Variables (B M : Z) (fuel : nat).    (* M = 2^B; no loop has more than [fuel] turns *)

  (* x / M, down and up *)
  Definition shr (x : Z) : Z := Z.shiftr x B.
  Definition csh (x : Z) : Z := - Z.shiftr (- x) B.

  (* M e^(-u), by the series: i terms are in [sl, sh], the next one is in [tl, th] *)
  Fixpoint exp_terms (fuel : nat) (ul uh i tl th sl sh : Z) (minus : bool) : Z * Z :=
    match fuel with
    | O => (sl - th, sh + th)
    | S fuel' =>
        if th <=? 1 then (sl - th, sh + th)
        else
          let '(sl', sh') := if minus then (sl - th, sh - tl) else (sl + tl, sh + th) in
          exp_terms fuel' ul uh (i + 1) (shr (tl * ul) / (i + 1)) (cdiv (csh (th * uh)) (i + 1)) sl' sh' (negb minus)
    end.
  Fixpoint squares (j : nat) (lo hi : Z) : Z * Z :=
    match j with O => (lo, hi) | S j' => squares j' (shr (lo * lo)) (csh (hi * hi)) end.
  (* M e^(-n/d), n >= 0: j times the square of M e^(-n / (d 2^j)) *)
  Definition exp_minus (n d : Z) : Z * Z :=
    let j := Z.sqrt B + Z.log2 (n / d + 1) in
    let u := Z.shiftl n B / Z.shiftl d j in
    let '(lo, hi) := exp_terms fuel u (u + 1) 0 M M 0 0 false in
    squares (Z.to_nat j) (Z.max 0 lo) hi.
  (* M e^(n/d) *)
  Definition exp_both (n d : Z) : option (Z * Z) :=
    if n <=? 0 then Some (exp_minus (- n) d)
    else let '(lo, hi) := exp_minus n d in if 0 <? lo then Some (M * M / hi, cdiv (M * M) lo) else None.

  (* M G(X/M), by the series: j terms are in [sl, sh], the next one is in [tl, th] / (2 j + 1) *)
  Fixpoint series (fuel : nat) (ul uh j tl th sl sh : Z) (minus : bool) : Z * Z :=
    let b := cdiv th (2 * j + 1) in
    match fuel with
    | O => (sl - b, sh + b)
    | S fuel' =>
        if th <=? 1 then (sl - b, sh + b)
        else
          let a := tl / (2 * j + 1) in
          let '(sl', sh') := if minus then (sl - b, sh - a) else (sl + a, sh + b) in
          series fuel' ul uh (j + 1) (shr (tl * ul) / (j + 1)) (cdiv (csh (th * uh)) (j + 1)) sl' sh' (negb minus)
    end.
  Definition g_at (X : Z) : Z * Z := series fuel (X * X / (2 * M)) (cdiv (X * X) (2 * M)) 0 X X 0 0 false.

  (* M half_Z, from G(m) and the tail beyond m *)
  Definition half_z (m : Z) : Z * Z := let '(lo, hi) := g_at (m * M) in (lo, hi + cdiv (snd (exp_minus (m * m) 2)) m).

  Variables (m zlo zhi : Z).       (* half_z m *)

  (* M Phi(n/d), n >= 0 *)
  Definition cdf_pos (n d : Z) : Z * Z :=
    let X := n * M / d in
    let '(lo, hi) := if m * M <=? X then (zlo, zhi) else let '(lo, hi) := g_at X in (lo, hi + 1) in
    ((zhi + Z.max 0 lo) * M / (2 * zhi), cdiv ((zlo + hi) * M) (2 * zlo)).
  Definition cdf (n d : Z) : Z * Z :=
    if n <? 0 then let '(lo, hi) := cdf_pos (- n) d in (M - hi, M - lo) else cdf_pos n d.

  Variable hint : Z -> Z -> Z.      (* l / M a little less than log(be / al). Nothing rests on it. *)
  Variables (qn qd sn sd : Z).     (* rate qn / qd, noise multiplier sn / sd *)

  (* M times the curve, for al in [al, ah], be in [bl, bh] over M *)
  Definition between (al ah bl bh : Z) : option (Z * Z) :=
    let l := hint ah bl in
    match exp_both l M with
    | None => None
    | Some (el, eh) =>
        if eh * ah <=? bl * M then
          let den := 2 * sn * sd * M in
          let '(Al, Ah) := cdf (sd * sd * M - 2 * sn * sn * l) den in
          let '(Bl, Bh) := cdf (- (sd * sd * M) - 2 * sn * sn * l) den in
          Some (Z.max 0 ((al * Z.max 0 Al - bh * Bh) / M), cdiv (ah * Z.max 0 (Ah * M - el * Z.max 0 Bl)) (M * M))
        else None
    end.

  (* M times the curve at the loss n / d *)
  Definition remove_at (n d : Z) : option (Z * Z) :=
    match exp_both n d with
    | None => None
    | Some (rl, rh) =>
        let al := qn * M / qd in
        let ah := cdiv (qn * M) qd in
        if rh - M + ah <=? 0 then Some (M - rh, M - rl)
        else if (0 <=? al) && (0 <? rl - M + al) then between al ah (rl - M + al) (rh - M + ah)
        else None
    end.
  Definition add_at (n d : Z) : option (Z * Z) :=
    match exp_both n d with
    | None => None
    | Some (rl, rh) =>
        let al := M - cdiv ((qd - qn) * rh) qd in
        let ah := M - (qd - qn) * rl / qd in
        if ah <=? 0 then Some (0, 0)
        else if 0 <=? al then between al ah (qn * rl / qd) (cdiv (qn * rh) qd)
        else None
    end.
End at_precision.

(* The hint, by Halley's iteration, with more and more bits: b - |log2(be / al)| of them are right after each turn. *)
Fixpoint halley (fuel : nat) (bs : list Z) (B al be l : Z) : Z :=
  match bs with
  | [] => l
  | b :: bs' =>
      let s := B - b in
      let M := 2 ^ b in
      let l' := Z.shiftr l s in
      match exp_both b M fuel l' M with
      | Some (e, _) =>
          let p := be * M in
          let q := e * al in
          halley fuel bs' B al be (Z.shiftl l' s + Z.shiftl (2 * Z.shiftr (p - q) s * M / Z.shiftr (p + q) s) s)
      | None => l
      end
  end.
Definition hint_of (fuel : nat) (B margin al be : Z) : Z :=
  let size := Z.log2 be - Z.log2 al in
  let bs := filter (fun b => b <? B) (map (fun b => b + Z.abs size) [60; 60; 80; 160; 440; 1300; 3900; 11700]) in
  halley fuel (bs ++ [B]) B al be (Z.shiftl (size * 693147) B / 1000000) - margin.

(* Bits beyond those asked for, because of the greatest loss on the grid. *)
Definition last_of (p n unit : Z) : Z := if 0 <? n then (p + n - 1) * unit else 0.
Definition top (g : grid) : Z :=
  Z.max 0 (Z.max (last_of (g_floor g) (g_low g) (size g))
            (Z.max (last_of (g_ffirst g) (g_fine g) 1) (last_of (g_hfirst g) (g_high g) (size g)))).
Definition extra (den spacing : Z) (g : grid) : Z := Z.max 0 (3 * (g_off g * size g + top g * spacing) / (2 * (den * size g))).

(* Two noise multipliers, c / d each, with the law's own between them. *)
Definition root (z : Z) : option Z := let r := Z.sqrt z in if r * r =? z then Some r else None.
Definition multipliers (o : own) (B : Z) : (Z * Z) * (Z * Z) :=
  if o_square o then
    match root (o_d o), root (o_c o) with
    | Some c, Some d => ((c, d), (c, d))
    | _, _ =>
        let r := Z.sqrt (Z.shiftl (o_c o * o_d o) (2 * B)) in
        let d := Z.shiftl (o_c o) B in
        ((r, d), (r + 1, d))
    end
  else ((o_c o, o_d o), (o_c o, o_d o)).

(* v <= V H <= v + d with d <= 1, from lo <= M H <= hi. *)
Definition rounded (M V : Z) (b : option (Z * Z)) : option (Z * Z) :=
  match b with
  | Some (lo, hi) =>
      let v := V * lo / M in
      let d := cdiv (V * hi) M - v in
      if d <=? 1 then Some (v, d) else None
  | None => None
  end.
(* the lower bound for more noise, the upper one for less *)
Definition bracket (below above : Z * Z) (at_ : Z -> Z -> option (Z * Z)) : option (Z * Z) :=
  match at_ (fst below) (snd below) with
  | Some (lo, hi) =>
      if (fst below =? fst above) && (snd below =? snd above) then Some (lo, hi)
      else match at_ (fst above) (snd above) with Some (lo', _) => Some (lo', hi) | None => None end
  | None => None
  end.

(* What was computed: (v, d) at each place, or the number of the first place where the enclosure is too wide. *)
Inductive computed := Values (values : list (Z * Z)) | Fails (place : Z).
Fixpoint each (at1 at2 : Z -> option (Z * Z)) (ps : list Z) (i : Z) (out : list (Z * Z)) : computed :=
  match ps with
  | [] => Values (rev_append out [])
  | p :: ps' =>
      match at1 p with
      | Some vd => each at1 at2 ps' (i + 1) (vd :: out)
      | None => match at2 p with Some vd => each at1 at2 ps' (i + 1) (vd :: out) | None => Fails i end
      end
  end.

(* At places [ps], of which the first is number [i]: with B1 bits, and with B2 where these are not enough. *)
Definition own_piece (den spacing : Z) (up : bool) (law : text) (kd : kind) (ps : list Z) (i : Z) : computed :=
  match read_own law with
  | None => Fails i
  | Some o =>
      let g := k_grid kd in
      let w := k_vbits kd in
      let e := extra den spacing g in
      let B2 := 2 * w + 280 + 2 * e in
      let B1 := Z.min B2 (w + 190 + e) in
      let fuel := Z.to_nat (8 * (w + e) + 1200) in
      let m := Z.sqrt (7 * (w + 100 + e) / 5) + 1 in
      let '(zlo, zhi) := half_z B2 (2 ^ B2) fuel m in
      let zlo1 := zlo / 2 ^ (B2 - B1) in
      let zhi1 := cdiv zhi (2 ^ (B2 - B1)) in
      let '(below, above) := multipliers o B2 in
      let at_bits B zlo zhi p :=
        rounded (2 ^ B) (2 ^ w) (bracket below above (fun sn sd =>
          (if up then remove_at else add_at) B (2 ^ B) fuel m zlo zhi (hint_of fuel B (2 ^ (B - w - 80)))
            (o_a o) (o_b o) sn sd (g_off g * size g + p * spacing) (den * size g))) in
      if (0 <=? w) && (0 <? m) && (0 <? zlo1) && (0 <? den) && (0 <=? g_halv g) && (0 <=? B1) && (B1 <=? B2)
      then each (at_bits B1 zlo1 zhi1) (at_bits B2 zlo zhi) ps i []
      else Fails i
  end.
Definition own_values (den spacing : Z) (up : bool) (law : text) (kd : kind) : computed :=
  own_piece den spacing up law kd (places_t (k_grid kd)) 0.

(* A file may not make this run for ever. Nothing rests on the limit. *)
Definition MOST_EFFORT := 2 ^ 43.
Definition effort (den spacing : Z) (law : text) (kd : kind) : Z :=
  match k_source kd, read_own law with
  | Own, Some o =>
      let g := k_grid kd in
      let long := Z.log2 (den + Z.abs (g_off g) + spacing + o_a o + o_b o + o_c o + o_d o) in
      (g_low g + g_fine g + g_high g) * (k_vbits kd + extra den spacing g + long + 300) ^ 3
  | _, _ => 0
  end.
