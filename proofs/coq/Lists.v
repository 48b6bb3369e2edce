(* Lists of integers: by recursion, for proofs; in loops, for programs with a short stack (JavaScript's); and that these are equal. *)
Require Import ZArith List Bool FunctionalExtensionality Lia.
Import ListNotations.
Open Scope Z_scope.

(* k copies of z before l *)
Definition zeros {A} (z : A) (k : Z) (l : list A) : list A :=
  match k with Zpos p => Pos.iter (cons z) l p | _ => l end.

Fixpoint gadd {A} (plus : A -> A -> A) (p q : list A) : list A :=
  match p, q with
  | [], _ => q
  | _, [] => p
  | a :: p', b :: q' => plus a b :: gadd plus p' q'
  end.

Fixpoint gmul {A} (zero : A) (plus times : A -> A -> A) (p q : list A) : list A :=
  match p with
  | [] => []
  | a :: p' => gadd plus (map (times a) q) (zero :: gmul zero plus times p' q)
  end.

Definition zadd := gadd Z.add.
Definition zmul := gmul 0 Z.add Z.mul.
Fixpoint zsum (l : list Z) : Z := match l with [] => 0 | a :: l' => a + zsum l' end.
Fixpoint dot (l m : list Z) : Z :=
  match l, m with a :: l', b :: m' => a * b + dot l' m' | _, _ => 0 end.

Fixpoint take {A} (l : list A) (k : Z) : list A :=
  match l with [] => [] | a :: l' => if k <=? 0 then [] else a :: take l' (k - 1) end.
Fixpoint drop {A} (l : list A) (k : Z) : list A :=
  match l with [] => [] | a :: l' => if k <=? 0 then l else drop l' (k - 1) end.
Definition zlen (l : list Z) : Z := fold_left (fun n _ => n + 1) l 0.
Definition cdiv (a b : Z) : Z := (a + (b - 1)) / b.
Fixpoint split_like {A B} (s : list A) (l : list B) : list B * list B :=
  match s, l with
  | _ :: s', a :: l' => let '(b, r) := split_like s' l' in (a :: b, r)
  | _, _ => ([], l)
  end.
Fixpoint cells (fuel : list Z) (S : Z) (sh l : list Z) : list Z * list Z :=
  match l, fuel with
  | _ :: _, _ :: fuel' =>
      let '(b, r) := split_like sh l in
      let '(us, ds) := cells fuel' S sh r in
      let u := cdiv (dot b sh) S in (u :: us, zsum b - u :: ds)
  | _, _ => ([], [])
  end.
(* S5: tails (T_n, T_{n+1}, ...) of the second half, and S(n), R(n) of the first of them *)
Fixpoint tails (g W E E' : Z) (l : list Z) : list Z * (Z * Z) :=
  match l with
  | [] => ([], (0, 0))
  | y :: l' =>
      let '(ts, (s, r)) := tails g W E E' l' in
      let s' := s + y in
      let r' := (y * g + r) * E / W in
      (s' - r' * E' / (W * g) :: ts, (s', r'))
  end.

(* In loops *)
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

(* The same *)
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
