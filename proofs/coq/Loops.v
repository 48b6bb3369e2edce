(* The verifier with lists walked by loops (tail calls) in place of recursion as deep as the list: for JavaScript's short stack.
   The same function, by theorem: [verify_same], [judge_same]. *)
Require Import ZArith List Bool FunctionalExtensionality Lia.
Require Import Evr.Integers Evr.Product Evr.Powers Evr.Composer Evr.Step Evr.Reader Evr.Judge.
Import ListNotations.
Open Scope bool_scope.
Open Scope Z_scope.

(* Walks *)
Definition back {A} (l : list A) := rev_append l [].
Fixpoint map_a {A B} (f : A -> B) (l : list A) (acc : list B) : list B :=
  match l with [] => back acc | a :: l' => map_a f l' (f a :: acc) end.
Definition map_t A B (f : A -> B) (l : list A) := map_a f l [].
Definition app_t A (l m : list A) := rev_append (back l) m.
Fixpoint gadd_a {A} (plus : A -> A -> A) (p q acc : list A) : list A :=
  match p, q with
  | [], _ => rev_append acc q
  | _, [] => rev_append acc p
  | a :: p', b :: q' => gadd_a plus p' q' (plus a b :: acc)
  end.
Definition zadd_t p q := gadd_a Z.add p q [].
Fixpoint zsum_a (l : list Z) (s : Z) : Z := match l with [] => s | a :: l' => zsum_a l' (s + a) end.
Definition zsum_t l := zsum_a l 0.
Fixpoint dot_a (l m : list Z) (s : Z) : Z :=
  match l, m with a :: l', b :: m' => dot_a l' m' (s + a * b) | _, _ => s end.
Definition dot_t l m := dot_a l m 0.
Fixpoint take_a {A} (l : list A) (k : Z) (acc : list A) : list A :=
  match l with [] => back acc | a :: l' => if k <=? 0 then back acc else take_a l' (k - 1) (a :: acc) end.
Definition take_t A (l : list A) k := take_a l k [].
Fixpoint split_a {A B} (s : list A) (l : list B) (acc : list B) : list B * list B :=
  match s, l with _ :: s', a :: l' => split_a s' l' (a :: acc) | _, _ => (back acc, l) end.
Definition split_t A B (s : list A) (l : list B) := split_a s l [].
Fixpoint cells_a (fuel : list Z) (S : Z) (sh l us ds : list Z) : list Z * list Z :=
  match l, fuel with
  | _ :: _, _ :: fuel' =>
      let '(b, r) := split_t _ _ sh l in
      let u := cdiv (dot_t b sh) S in cells_a fuel' S sh r (u :: us) (zsum_t b - u :: ds)
  | _, _ => (back us, back ds)
  end.
Definition cells_t fuel S sh l := cells_a fuel S sh l [] [].
Definition tail_step (g W E E' : Z) (st : list Z * (Z * Z)) (y : Z) : list Z * (Z * Z) :=
  let '(ts, (s, r)) := st in
  let s' := s + y in
  let r' := (y * g + r) * E / W in
  (s' - r' * E' / (W * g) :: ts, (s', r')).
Definition tails_t g W E E' l := fold_left (tail_step g W E E') (back l) ([], (0, 0)).
Fixpoint pairs_a (k : Z) (l acc : list Z) : list Z :=
  match l with a :: b :: l' => pairs_a k l' (a + Z.shiftl b k :: acc) | _ => rev_append acc l end.
Definition pairs_t k l := pairs_a k l [].
Fixpoint pack_t (fuel : list Z) (k : Z) (l : list Z) : Z :=
  match l, fuel with
  | [], _ => 0
  | [a], _ => a
  | _, _ :: f => pack_t f (2 * k) (pairs_t k l)
  | _, [] => 0
  end.
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

(* The same text as in Integers, Product, Powers, Composer and Step, over these walks *)
Definition madd_t (M N : masses) : masses :=
  match coef M, coef N with
  | [], _ => N
  | _, [] => M
  | _, _ =>
      let low := Z.min (first M) (first N) in
      Masses low (zadd_t (zeros 0 (first M - low) (coef M)) (zeros 0 (first N - low) (coef N)))
  end.
Definition under_t (M : masses) (k : Z) : masses := Masses (first M) (take_t _ (coef M) (k - first M)).
Definition mround_t (S : Z) (M : masses) : masses := Masses (first M) (map_t _ _ (fun z => cdiv z S) (coef M)).
Definition coarsened_t (S size : Z) (sh : list Z) (M : masses) : masses :=
  let low := first M / size in
  let l := zeros 0 (first M - low * size) (coef M) in
  let '(us, ds) := cells_t l S sh l in
  Masses low (zadd_t ds (0 :: us)).
Definition windowed_t (S E floor top : Z) (M : masses) : masses * Z :=
  let low := under_t M floor in
  let rest := from M floor in
  let inside := under_t rest (top + 1) in
  let high := from rest (top + 1) in
  let l := zeros 0 (first high - (top + 1)) (coef high) in
  let k := kept S E S l 0 / S in
  (madd_t (madd_t inside (Masses floor [zsum_t (coef low)])) (Masses top [k]), zsum_t l - k).

Section ops.
  Variable S : Z.
  Variable mul : list Z -> list Z -> list Z.
  Variable sh : Z -> Z -> list Z.
  Variable E : Z.
  Definition to_grid_t (a b : Z) (M : masses) : masses :=
    if a <=? b then M else coarsened_t S (2 ^ (a - b)) (sh a b) M.
  Definition on_coarse_t (X : glaw) : masses := to_grid_t (halv X) 0 (fine X).
  Definition all_coarse_t (X : glaw) : masses := madd_t (coarse X) (on_coarse_t X).
  Definition at_halv_t (b : Z) (X : glaw) : glaw :=
    if halv X <=? b then X
    else if b =? 0 then Glaw 0 nothing (all_coarse_t X) (infi X)
    else Glaw b (to_grid_t (halv X) b (fine X)) (coarse X) (infi X).
  Definition times_t (X0 Y0 : glaw) : glaw :=
    let a := Z.min (halv X0) (halv Y0) in
    let X := at_halv_t a X0 in
    let Y := at_halv_t a Y0 in
    Glaw a (mround_t S (mmul mul (fine X) (fine Y)))
      (mround_t S (madd_t (mmul mul (coarse X) (madd_t (on_coarse_t Y) (coarse Y)))
                      (mmul mul (on_coarse_t X) (coarse Y))))
      (either S (infi X) (infi Y)).
  Definition square_t (sqr : list Z -> list Z) (X : glaw) : glaw :=
    let T := on_coarse_t X in
    Glaw (halv X) (mround_t S (Masses (first (fine X) + first (fine X)) (sqr (coef (fine X)))))
      (mround_t S (mmul mul (coarse X) (madd_t (madd_t T T) (coarse X))))
      (either S (infi X) (infi X)).
  Definition within_t (w : window) (X0 : glaw) : glaw :=
    let X := at_halv_t (Z.max 0 (w_halv w)) X0 in
    let low := under_t (fine X) (w_low w) in
    let rest := from (fine X) (w_low w) in
    let inside := under_t rest (w_high w + 1) in
    let high := from rest (w_high w + 1) in
    let ends := to_grid_t (halv X) 0 (madd_t low high) in
    let '(c, esc) := windowed_t S E (w_floor w) (w_top w) (madd_t (coarse X) ends) in
    Glaw (halv X) inside c (Z.min (infi X + esc) S).
End ops.

Definition last_sum_t (g W E E' cut : Z) (M N : masses) : Z :=
  let n := cut + 1 - (first M + zlen (coef M) - 1) in
  dot_t (rev_append (coef M) []) (fst (tails_t g W E E' (start_at n N))).

Definition kmul_t (p q : list Z) : list Z :=
  match p, q with
  | [], _ => []
  | _, [] => map_t _ _ (fun _ => 0) p
  | _, _ =>
      let n := zlen p + zlen q - 1 in
      let k := Z.log2 (zsum_t p * zsum_t q) + 1 in
      take_t _ (unpack (Z.to_nat (Z.log2_up n)) k (pack_t p k p * pack_t q k q) []) n
  end.
Definition ksqr_t (p : list Z) : list Z :=
  match p with
  | [] => []
  | _ =>
      let n := zlen p + zlen p - 1 in
      let k := Z.log2 (zsum_t p * zsum_t p) + 1 in
      let P := pack_t p k p in
      take_t _ (unpack (Z.to_nat (Z.log2_up n)) k (P * P) []) n
  end.
(* the shares of a cell: its number of places may be long, so no nat counts it *)
Definition shares_t (k : nat) (Q S n d b : Z) : list Z :=
  let lo := exp_down k Q (- n) d in
  let hi := exp_up k Q (n * 2 ^ b) d in
  match 2 ^ b with
  | Zpos p =>
      back (snd (Pos.iter (fun st => let '(y, out) := st in
        (y * lo / Q, (if Q <=? hi then S else Z.min S (cdiv ((Q - y) * S) (Q - hi))) :: out)) (Q, []) p))
  | _ => []
  end.

Section check.
  Variable C : cert.
  Definition shC_t (a b : Z) := shares_t (sqs C) (QQ C) (SS C) (spacing C) (den C * 2 ^ a) (a - b).
  Definition product_t (E : Z) (w : window) (a b : reg) : reg :=
    (zadd_t (fst a) (fst b), within_t (SS C) shC_t E w (times_t (SS C) kmul_t shC_t (snd a) (snd b))).
  Definition square_reg_t (E : Z) (w : window) (a : reg) : reg :=
    (zadd_t (fst a) (fst a), within_t (SS C) shC_t E w (square_t (SS C) kmul_t shC_t ksqr_t (snd a))).
  Fixpoint run_t (E : Z) (p : list (Z * Z * window)) (rs : list reg) : option (list reg) :=
    match p with
    | [] => Some rs
    | (i, j, w) :: p' =>
        match get rs i, get rs j with
        | Some a, Some b => run_t E p' (app_t _ rs [if i =? j then square_reg_t E w a else product_t E w a b])
        | _, _ => None
        end
    end.
  Definition finish_t (a b : reg) : Z :=
    let o := dot_t (counts C) (map_t _ _ fst (kinds C)) in
    let cut := (eps C - o) / spacing C in
    let M := all_coarse_t (SS C) shC_t (snd a) in
    let N := all_coarse_t (SS C) shC_t (snd b) in
    let I := either (SS C) (infi (snd a)) (infi (snd b)) in
    if cut <? first M + first N - 2 ^ 26 then SS C * SS C
    else Z.min (SS C * SS C)
      (last_sum_t (2 ^ guard) (WW C) (down C (WW C) (- spacing C)) (down C (WW C) (eps C - o - cut * spacing C)) cut M N + I * SS C).
  Definition check_t : option Z :=
    if (0 <=? bits C) && (0 <? den C) && (0 <? spacing C) then
      match run_t (down C (SS C) (- spacing C)) (prog C) (start C) with
      | None => None
      | Some rs =>
          match get rs (fst (last C)), get rs (snd (last C)) with
          | Some a, Some b => if same (zadd_t (fst a) (fst b)) (counts C) then Some (finish_t a b) else None
          | _, _ => None
          end
      end
    else None.
End check.

Definition places_t (g : grid) : list Z :=
  app_t _ (arith_t _ (g_floor g * size g) (size g) (run_of (g_low g)))
    (app_t _ (arith_t _ (g_ffirst g) 1 (run_of (g_fine g))) (arith_t _ (g_hfirst g * size g) (size g) (run_of (g_high g)))).
Definition step_law_t (sq : nat) (Q S den spacing : Z) (k : kind) : option (Z * glaw) :=
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
              end with
        | None => None
        | Some (ml, mi) =>
            let '(m1, r1) := split_t _ _ (run_of (g_low g)) ml in
            let '(m2, m3) := split_t _ _ (run_of (g_fine g)) r1 in
            Some (g_off g, Glaw (g_halv g) (Masses (g_ffirst g) m2)
                             (madd_t (Masses (g_floor g) m1) (Masses (g_hfirst g) m3)) (Z.min S mi))
        end
    end
  else None.

Definition verify_t (c : claim) : option Z :=
  let base := Cert (c_bits c) (c_den c) (c_spacing c) (c_eps c) [] [] [] (0, 0) in
  if (0 <=? c_bits c) && (0 <? c_den c) && (0 <? c_spacing c) then
    match all_some (map_t _ _ (step_law_t (sqs base) (QQ base) (SS base) (c_den c) (c_spacing c)) (c_kinds c)) with
    | None => None
    | Some ks => check_t (Cert (c_bits c) (c_den c) (c_spacing c) (c_eps c) ks (c_counts c) (c_prog c) (c_last c))
    end
  else None.
Definition judge_t : text -> answer := judge verify_t.

(* Proofs *)
Ltac ext := repeat (apply functional_extensionality_dep; intro).
Lemma back_back A (l : list A) : back (back l) = l.
Proof. unfold back. rewrite !rev_append_rev, !app_nil_r. apply rev_involutive. Qed.

Lemma map_e : map_t = @map.
Proof.
  ext. unfold map_t. enough (H : forall l acc, map_a x1 l acc = rev_append acc (map x1 l)) by apply H.
  induction l; intros; simpl; try reflexivity. rewrite IHl. reflexivity.
Qed.
Lemma app_e : app_t = @app.
Proof. ext. unfold app_t. rewrite rev_append_rev. unfold back. rewrite rev_append_rev, app_nil_r, rev_involutive. auto. Qed.
Lemma zadd_e : zadd_t = zadd.
Proof.
  ext. unfold zadd_t, zadd. enough (H : forall p q acc, gadd_a Z.add p q acc = rev_append acc (gadd Z.add p q)) by apply H.
  induction p; intros; simpl; try reflexivity; auto. destruct q; try reflexivity; auto. apply IHp.
Qed.
Lemma zsum_e : zsum_t = zsum.
Proof. ext. unfold zsum_t. enough (H : forall l s, zsum_a l s = s + zsum l) by apply H. induction l; intros; simpl; [lia|]. rewrite IHl. lia. Qed.
Lemma dot_e : dot_t = dot.
Proof.
  ext. unfold dot_t. enough (H : forall l m s, dot_a l m s = s + dot l m) by apply H.
  induction l; intros; simpl; [lia|]. destruct m; [lia|]. rewrite IHl. lia.
Qed.
Lemma take_e : take_t = @take.
Proof.
  ext. unfold take_t. enough (H : forall (l : list x) k acc, take_a l k acc = rev_append acc (take l k)) by apply H.
  induction l; intros; simpl; try reflexivity; auto. destruct (k <=? 0); try reflexivity; auto. apply IHl.
Qed.
Lemma split_e : split_t = @split_like.
Proof.
  ext. unfold split_t.
  enough (H : forall s l acc, split_a s l acc = let '(b, r) := @split_like x x0 s l in (rev_append acc b, r)).
  { rewrite H. destruct (split_like x1 x2). auto. }
  induction s; intros; simpl; try reflexivity; auto. destruct l; try reflexivity; auto. rewrite IHs. destruct (split_like s l). auto.
Qed.
Lemma cells_e : cells_t = cells.
Proof.
  ext. unfold cells_t.
  enough (H : forall f S sh l us ds, cells_a f S sh l us ds = let '(u, d) := cells f S sh l in (rev_append us u, rev_append ds d)).
  { rewrite H. destruct (cells x x0 x1 x2). auto. }
  induction f; intros; destruct l; simpl; try reflexivity; auto. rewrite split_e, dot_e, zsum_e.
  destruct (split_like sh (z :: l)) as [b r]. rewrite IHf. destruct (cells f S sh r). auto.
Qed.
Lemma tails_e : tails_t = tails.
Proof.
  ext. unfold tails_t, back. rewrite rev_append_rev, app_nil_r.
  rewrite <- fold_left_rev_right, rev_involutive.
  induction x3; simpl; try reflexivity; auto. rewrite IHx3. destruct (tails x x0 x1 x2 x3) as [ts [s r]]. auto.
Qed.
Lemma pairs_e : pairs_t = pairs.
Proof.
  ext. unfold pairs_t.
  enough (H : forall n k l acc, (length l <= n)%nat -> pairs_a k l acc = rev_append acc (pairs k l)) by (apply (H (length x0)); auto).
  induction n; intros k [|a [|b l]] acc Hl; simpl in *; try lia; try reflexivity; auto. rewrite IHn by lia. auto.
Qed.
Lemma pack_e : pack_t = pack.
Proof. ext. revert x0 x1. induction x as [|z f IH]; intros k [|a [|b l]]; try reflexivity. cbn [pack_t pack]. rewrite pairs_e. apply IH. Qed.
Lemma arith_e : arith_t = @arith.
Proof.
  ext. unfold arith_t. enough (H : forall (l : list x) p acc, arith_a p x1 l acc = rev_append acc (arith p x1 l)) by apply H.
  induction l; intros; simpl; try reflexivity; auto. rewrite IHl. reflexivity.
Qed.
Lemma mlist_e : mlist_t = mlist.
Proof.
  ext. unfold mlist_t.
  enough (H : forall ps gu vs acc, mlist_a x x0 x1 x2 gu ps vs acc =
    let '(m, i) := mlist x x0 x1 x2 gu ps vs in (rev_append acc m, i)).
  { rewrite H. destruct (mlist x x0 x1 x2 x3 x4 x5). auto. }
  induction ps; intros; cbn [mlist_a mlist]; try reflexivity; auto. destruct vs as [|[v d] vs]; try reflexivity; auto.
  destruct (match ps with [] => _ | _ => _ end) as [gu' gl']. rewrite IHps. destruct (mlist x x0 x1 x2 gu' ps vs). auto.
Qed.

Lemma madd_e : madd_t = madd. Proof. unfold madd_t. rewrite zadd_e. reflexivity. Qed.
Lemma under_e : under_t = under. Proof. unfold under_t. rewrite take_e. reflexivity. Qed.
Lemma mround_e : mround_t = mround. Proof. unfold mround_t. rewrite map_e. reflexivity. Qed.
Lemma coarsened_e : coarsened_t = coarsened. Proof. unfold coarsened_t. rewrite cells_e, zadd_e. reflexivity. Qed.
Lemma windowed_e : windowed_t = windowed. Proof. unfold windowed_t. rewrite under_e, madd_e, zsum_e. reflexivity. Qed.
Lemma to_grid_e : to_grid_t = to_grid. Proof. unfold to_grid_t. rewrite coarsened_e. reflexivity. Qed.
Lemma on_coarse_e : on_coarse_t = on_coarse. Proof. unfold on_coarse_t. rewrite to_grid_e. reflexivity. Qed.
Lemma all_coarse_e : all_coarse_t = all_coarse. Proof. unfold all_coarse_t. rewrite on_coarse_e, madd_e. reflexivity. Qed.
Lemma at_halv_e : at_halv_t = at_halv. Proof. unfold at_halv_t. rewrite all_coarse_e, to_grid_e. reflexivity. Qed.
Lemma times_e : times_t = times. Proof. unfold times_t. rewrite at_halv_e, on_coarse_e, mround_e, madd_e. reflexivity. Qed.
Lemma square_e : square_t = square. Proof. unfold square_t. rewrite on_coarse_e, mround_e, madd_e. reflexivity. Qed.
Lemma within_e : within_t = within.
Proof. unfold within_t. rewrite at_halv_e, under_e, to_grid_e, madd_e, windowed_e. reflexivity. Qed.
Lemma last_sum_e : last_sum_t = last_sum. Proof. unfold last_sum_t. rewrite dot_e, tails_e. reflexivity. Qed.
Lemma zmul_nil p : zmul p [] = map (fun _ => 0) p.
Proof. unfold zmul. induction p; simpl; try reflexivity; auto. rewrite IHp. auto. Qed.
Lemma kmul_e : kmul_t = kmul.
Proof.
  unfold kmul_t. rewrite take_e, zsum_e, pack_e, map_e. ext. destruct x; [reflexivity|]. destruct x0; [|reflexivity].
  unfold kmul. rewrite zmul_nil. reflexivity.
Qed.
Lemma ksqr_e : ksqr_t = ksqr. Proof. unfold ksqr_t. rewrite take_e, zsum_e, pack_e. reflexivity. Qed.
Lemma iter_inside A (f : A -> A) x n : Nat.iter (Datatypes.S n) f x = Nat.iter n f (f x).
Proof. induction n; [reflexivity|]. simpl in *. congruence. Qed.
Lemma shares_e : shares_t = shares.
Proof.
  ext. rename x into k, x0 into Q, x1 into S, x2 into n, x3 into d, x4 into b. unfold shares_t, shares.
  set (lo := exp_down _ _ _ _). set (hi := exp_up _ _ _ _).
  destruct (2 ^ b) as [|p|p]; [reflexivity| |reflexivity]. simpl Z.to_nat. rewrite Pos2Nat.inj_iter.
  set (f := fun st : Z * list Z => _).
  enough (H : forall m y out, snd (Nat.iter m f (y, out)) = rev_append (shares_from S Q lo hi y m) out).
  { change (nat_rect _ (Q, []) (fun _ => f) (Pos.to_nat p)) with (Nat.iter (Pos.to_nat p) f (Q, [])). rewrite H. apply back_back. }
  induction m; intros; [reflexivity|]. rewrite iter_inside. unfold f at 2. rewrite IHm. reflexivity.
Qed.
Lemma shC_e : shC_t = shC. Proof. unfold shC_t. rewrite shares_e. reflexivity. Qed.
Lemma product_e : product_t = product. Proof. unfold product_t. rewrite zadd_e, within_e, times_e, kmul_e, shC_e. reflexivity. Qed.
Lemma square_reg_e : square_reg_t = square_reg.
Proof. unfold square_reg_t. rewrite zadd_e, within_e, square_e, kmul_e, ksqr_e, shC_e. reflexivity. Qed.
Lemma run_e : run_t = run.
Proof.
  ext. revert x2. induction x1 as [|[[i j] w] p IH]; intros; cbn [run_t run]; try reflexivity; auto.
  rewrite app_e, square_reg_e, product_e. destruct (get x2 i), (get x2 j); try reflexivity; auto.
Qed.
Lemma finish_e : finish_t = finish. Proof. unfold finish_t. rewrite dot_e, map_e, all_coarse_e, shC_e, last_sum_e. reflexivity. Qed.
Lemma check_e : check_t = check. Proof. unfold check_t. rewrite run_e, zadd_e, finish_e. reflexivity. Qed.
Lemma places_e : places_t = places. Proof. unfold places_t. rewrite arith_e, app_e. reflexivity. Qed.
Lemma step_law_e : step_law_t = step_law.
Proof. unfold step_law_t. rewrite places_e, mlist_e, split_e, madd_e. reflexivity. Qed.
Theorem verify_same : verify_t = verify.
Proof. unfold verify_t. rewrite map_e, step_law_e, check_e. reflexivity. Qed.
Theorem judge_same : judge_t = judge verify.
Proof. unfold judge_t. rewrite verify_same. reflexivity. Qed.
