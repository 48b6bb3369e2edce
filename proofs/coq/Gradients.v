(* Trainings whose gradients are at most C long: each step is dominated by the step of its law, and steps are composed forward. *)
Require Import Evr.Setup.
Require Import Evr.Order Evr.ComposerSound Evr.Measure Evr.Weighted Evr.Lebesgue Evr.Normal Evr.Square Evr.Support Evr.Gaussian Evr.Statement.
Require Import Evr.Meaning Evr.Sampled Evr.Rotation Evr.OneStep Evr.Spherical Evr.Batch.
Local Open Scope classical_set_scope. Local Open Scope ring_scope.

(* Training.v's [outputs] and [prob], for gradients that need no clipping. *)
Section training.
Variables (X : Type) (m : nat -> nat) (C : nat -> R) (n : nat -> noise).
Variables (d0 : measure_display) (T0 : measurableType d0) (rho : {measure set T0 -> \bar RR}).
Variable grad : forall k, hist m T0 k -> X -> vec (m k).
Fixpoint outs (D : list X) (k : nat) : hist m T0 k -> R :=
  match k return hist m T0 k -> R with
  | O => fun _ => 1%R
  | S k' => fun h => (outs D h.1 * noisy_sum (rate (n k')) (dev (n k') * C k') (List.map (grad h.1) D) (zero (m k')) h.2)%R
  end.
Definition chance (D : list X) (k : nat) (A : set (hist m T0 k)) : \bar RR := (\int[hist_volume m rho k]_(h in A) (outs D h : RR)%:E)%E.
Definition short : Prop := forall k h x, (0 < C k)%R /\ (length2 (grad (k := k) h x) <= C k * C k)%R.
End training.

Section vectors.
Lemma normal_line s (c : vec O) : normal s c = (fun t : vec O => density c s t) :> (vec O -> R).
Proof. by rewrite /normal bellE. Qed.
Lemma normal_more m s (c : vec m.+1) : normal s c = (fun t : vec m.+1 => (density c.1 s t.1 * normal s c.2 t.2)%R) :> (vec m.+1 -> R).
Proof. by rewrite -bellE. Qed.
Lemma sum_swap m (a b c : vec m) : sum (sum a b) c = sum (sum a c) b.
Proof.
elim: m a b c => [|m IH] a b c /=; first by change (a + b + c = a + c + b)%R; ring.
by congr pair; [change (a.1 + b.1 + c.1 = a.1 + c.1 + b.1)%R; ring | exact: IH].
Qed.
Lemma normal_shifted m s (c v : vec m) : shifted s (proj1_sig (volume m)) (normal s c : vec m -> RR) (normal s (sum c v) : vec m -> RR) (length2 v).
Proof.
elim: m c v => [|m IH] c v; first by rewrite !normal_line; exact: (coordinate s c v).
by rewrite !normal_more; exact: (coordinates (proj2_sig (volume m)) (coordinate s c.1 v.1) (IH c.2 v.2)).
Qed.
Lemma normal_pos m s (c t : vec m) : Rlt 0 s -> Rlt 0 (normal s c t).
Proof.
move=> s0; elim: m c t => [|m IH] c t; first by rewrite normal_line; exact: density_pos.
by rewrite normal_more; apply: Rmult_lt_0_compat; [exact: density_pos | exact: IH].
Qed.

Section measurable.
Context d (Z : measurableType d).
Lemma m_density2 (s : R) (c t : Z -> line) : measurable_fun setT c -> measurable_fun setT t ->
  measurable_fun setT ((fun z => density (c z) s (t z)) : Z -> RR).
Proof.
move=> mc mt.
have -> : ((fun z => density (c z) s (t z)) : Z -> RR) = (fun u : RR => density 0 s u : RR) \o (fun z => (t z : RR) - (c z : RR)).
  apply: funext => z; rewrite /= /density; congr (Rdiv (gauss (Rdiv _ _)) _).
  by change (Rminus (t z) (c z) = Rminus (Rminus (t z) (c z)) 0); ring.
apply: (@measurable_fun_comp _ _ _ _ _ _ (fun u : RR => density 0 s u : RR) setT); first exact: m_density.
exact: (@measurable_funB _ Z RR setT (t : Z -> RR) (c : Z -> RR) mt mc).
Qed.
Lemma m_parts m (f : Z -> vec m.+1) : measurable_fun setT f ->
  measurable_fun setT ((fun z => (f z).1) : Z -> line) /\ measurable_fun setT ((fun z => (f z).2) : Z -> vec m).
Proof. by move=> mf; exact: (proj1 (@prod_measurable_funP _ _ _ Z line (vec m) f) mf). Qed.
Lemma m_sum m (a b : Z -> vec m) : measurable_fun setT a -> measurable_fun setT b -> measurable_fun setT (fun z => sum (a z) (b z)).
Proof.
elim: m a b => [|m IH] a b ma mb; first exact: (@measurable_funD _ Z RR setT (a : Z -> RR) (b : Z -> RR) ma mb).
have [a1 a2] := m_parts ma; have [b1 b2] := m_parts mb.
apply: (proj2 (@prod_measurable_funP _ _ _ Z line (vec m) _)); split; last exact: (IH _ _ a2 b2).
exact: (@measurable_funD _ Z RR setT ((fun z => (a z).1) : Z -> RR) ((fun z => (b z).1) : Z -> RR) a1 b1).
Qed.
Lemma m_normal m s (c t : Z -> vec m) : measurable_fun setT c -> measurable_fun setT t -> measurable_fun setT ((fun z => normal s (c z) (t z)) : Z -> RR).
Proof.
elim: m c t => [|m IH] c t mc mt; first by under eq_fun do rewrite normal_line; exact: m_density2.
have [c1 c2] := m_parts mc; have [t1 t2] := m_parts mt; under eq_fun do rewrite normal_more.
by apply: (@measurable_funM _ Z RR setT); [exact: m_density2 | exact: IH].
Qed.
Lemma m_noisy m q s X (D : list X) (g : Z -> X -> vec m) (c t : Z -> vec m) : (forall x, measurable_fun setT (fun z => g z x)) ->
  measurable_fun setT c -> measurable_fun setT t -> measurable_fun setT ((fun z => noisy_sum q s (List.map (g z) D) (c z) (t z)) : Z -> RR).
Proof.
move=> mg mc mt; elim: D c mc => [|x D IH] c mc /=; first exact: m_normal.
apply: (@measurable_funD _ Z RR setT); apply: (@measurable_funM _ Z RR setT); try exact: measurable_fun_cst; apply: IH => //.
exact: m_sum.
Qed.
End measurable.
End vectors.

(* One step, what is known being fixed: all sets of other records, with their probabilities. *)
Section one_step.
Variables (n : noise) (C : R) (m : nat).
Hypothesis C0 : (0 < C)%R.
Let q := rate n.
Let s := (dev n * C)%R.
Let s0 : Rlt 0 s := Rmult_lt_0_compat _ _ (dev_ok n) C0.

Definition scale (a : R) (b : batch (vec m)) : batch (vec m) := List.map (fun we => ((a * we.1)%R, we.2)) b.
Fixpoint subsets (gs : list (vec m)) (c v : vec m) : batch (vec m) :=
  match gs with
  | nil => ((1%R, (normal s c : vec m -> RR, normal s (sum c v) : vec m -> RR)) :: nil)%list
  | (g :: gs')%list => (scale (1 - q) (subsets gs' c v) ++ scale q (subsets gs' (sum c g) v))%list
  end.
Lemma total_scale g a b t : total g (scale a b) t = (a * total g b t)%R :> R.
Proof.
elim: b => [|we b IH]; first by change (@eq R 0 (a * 0))%R; ring.
by change (@eq R (a * we.1 * g we.2 t + total g (scale a b) t) (a * (we.1 * g we.2 t + total g b t)))%R; rewrite IH; ring.
Qed.
Lemma total_app g (b b' : batch (vec m)) t : total g (b ++ b')%list t = (total g b t + total g b' t)%R :> R.
Proof.
elim: b => [|we b IH]; first exact: (esym (Rplus_0_l _)).
by change (@eq R (we.1 * g we.2 t + total g (b ++ b')%list t) (we.1 * g we.2 t + total g b t + total g b' t))%R; rewrite IH; ring.
Qed.
Lemma weight_scale a (b : batch (vec m)) : weight (scale a b) = (a * weight b)%R.
Proof.
elim: b => [|we b IH]; first by change (@eq R 0 (a * 0))%R; ring.
by change (@eq R (a * we.1 + weight (scale a b)) (a * (we.1 + weight b)))%R; rewrite IH; ring.
Qed.
Lemma weight_app (b b' : batch (vec m)) : weight (b ++ b')%list = (weight b + weight b')%R.
Proof.
elim: b => [|we b IH]; first by change (@eq R (weight b') (0 + weight b'))%R; ring.
by change (@eq R (we.1 + weight (b ++ b')%list) (we.1 + weight b + weight b'))%R; rewrite IH; ring.
Qed.

Lemma subsets_good gs c v : (length2 v <= C * C)%R -> good n (proj1_sig (volume m)) C (subsets gs c v).
Proof.
have [q0 q1] : (0 <= q <= 1)%R := rate_ok n; move=> v1.
suff : List.Forall (fun we => (0 <= we.1)%R /\ exists r, (r <= C * C)%R /\ shifted s (proj1_sig (volume m)) we.2.1 we.2.2 r) (subsets gs c v)
  /\ weight (subsets gs c v) = 1%R by [].
elim: gs c => [|g gs IH] c.
  split; last by rewrite /=; ring.
  apply: List.Forall_cons; last exact: List.Forall_nil.
  by split; [exact: Rle_0_1 | exists (length2 v); split=> //; exact: normal_shifted].
have [F1 w1] := IH c; have [F2 w2] := IH (sum c g); split; last by rewrite /= weight_app !weight_scale w1 w2; ring.
have sc a b : (0 <= a)%R -> List.Forall (fun we => (0 <= we.1)%R /\ exists r, (r <= C * C)%R /\ shifted s (proj1_sig (volume m)) we.2.1 we.2.2 r) b ->
    List.Forall (fun we => (0 <= we.1)%R /\ exists r, (r <= C * C)%R /\ shifted s (proj1_sig (volume m)) we.2.1 we.2.2 r) (scale a b).
  move=> a0 /List.Forall_forall F; apply/List.Forall_forall => we' /List.in_map_iff [we [<- /F [w0 h]]].
  by split=> //; exact: Rmult_le_pos.
by apply/List.Forall_app; split; apply: sc => //; lra.
Qed.

Lemma subsets_total (gs : list (vec m)) (c v t : vec m) : total fst (subsets gs c v) t = noisy_sum q s gs c t :> R /\ total snd (subsets gs c v) t = noisy_sum q s gs (sum c v) t :> R.
Proof.
elim: gs c => [|g gs IH] c.
  by split; [change (@eq R (1 * normal s c t + 0) (normal s c t))%R | change (@eq R (1 * normal s (sum c v) t + 0) (normal s (sum c v) t))%R]; ring.
have [a1 a2] := IH c; have [b1 b2] := IH (sum c g).
by rewrite /= !total_app !total_scale a1 a2 b1 b2 (sum_swap c g v).
Qed.
Lemma total_coin (b : batch (vec m)) t : total (fun e => with_coin n e.1 e.2) b t = ((1 - q) * total fst b t + q * total snd b t)%R :> R.
Proof.
elim: b => [|we b IH]; first by change (@eq R 0 ((1 - q) * 0 + q * 0))%R; ring.
change (@eq R (we.1 * ((1 - q) * we.2.1 t + q * we.2.2 t) + total (fun e => with_coin n e.1 e.2) b t)
  ((1 - q) * (we.1 * we.2.1 t + total fst b t) + q * (we.1 * we.2.2 t + total snd b t)))%R.
by rewrite IH; ring.
Qed.

(* one more record, anywhere in the list *)
Lemma noisy_insert (gs1 gs2 : list (vec m)) (v c t : vec m) : noisy_sum q s (gs1 ++ v :: gs2)%list c t =
  ((1 - q) * noisy_sum q s (gs1 ++ gs2)%list c t + q * noisy_sum q s (gs1 ++ gs2)%list (sum c v) t)%R.
Proof. by elim: gs1 c => [//|g gs1 IH] c /=; rewrite !IH (sum_swap c g v); ring. Qed.
Lemma noisy_pos (gs : list (vec m)) (c t : vec m) : Rlt 0 (noisy_sum q s gs c t).
Proof.
have [q0 q1] : (0 <= q <= 1)%R := rate_ok n; elim: gs c => [|g gs IH] c /=; first exact: normal_pos.
have a := IH c; have b := IH (sum c g); case: (Rle_dec q (1 / 2)) => h.
  by apply: Rplus_lt_le_0_compat; [apply: Rmult_lt_0_compat; lra | apply: Rmult_le_pos; lra].
by apply: Rplus_le_lt_0_compat; [apply: Rmult_le_pos; lra | apply: Rmult_lt_0_compat; lra].
Qed.

Definition more (dir : direction) (gs1 : list (vec m)) (v : vec m) (gs2 : list (vec m)) : list (vec m) :=
  match dir with remove => (gs1 ++ v :: gs2)%list | add => (gs1 ++ gs2)%list end.
Definition other (dir : direction) : direction := match dir with remove => add | add => remove end.

Definition drawn (dir : direction) gs1 v gs2 (t : vec m) : R := noisy_sum q s (more dir gs1 v gs2) (zero m) t.
Theorem step_dominated dir gs1 v gs2 f : (length2 v <= C * C)%R -> falling_convex f ->
  (\int[proj1_sig (volume m)]_t (drawn dir gs1 v gs2 t * f (drawn (other dir) gs1 v gs2 t / drawn dir gs1 v gs2 t) : RR)%R%:E <= (step_of n dir f : RR)%:E)%E.
Proof.
move=> v1 Kf; set p := drawn dir gs1 v gs2; set p' := drawn (other dir) gs1 v gs2; have gb := subsets_good (gs1 ++ gs2)%list (zero m) v1; set b := subsets _ _ _ in gb.
have [_ _ _ _ /(_ f Kf)] := batch_dominated dir C0 gb.
have e1 t : total fst b t = noisy_sum q s (gs1 ++ gs2)%list (zero m) t :> R := proj1 (subsets_total _ _ _ t).
have e2 t : total (fun e => with_coin n e.1 e.2) b t = noisy_sum q s (gs1 ++ v :: gs2)%list (zero m) t :> R.
  by rewrite total_coin e1 (proj2 (subsets_total _ _ _ t)) noisy_insert.
have P t : P_batch n dir b t = p t :> R by rewrite /P_batch /p_given /p /drawn; case: (dir); [exact: e2 | exact: e1].
have Q t : total (@q_given n dir _ (vec m)) b t = p' t :> R by rewrite /q_given /p' /drawn; case: (dir); [exact: e1 | exact: e2].
have x t : x_batch n dir b t = (p' t / p t)%R :> R by rewrite /x_batch Q -/(P_batch n dir b t) P.
by move=> h; apply: (le_trans _ h); rewrite le_eqVlt; apply/orP; left; apply/eqP; apply: eq_integral => t _; rewrite x P.
Qed.
End one_step.

(* One more step after others, by Tonelli. *)
Section extend.
Variables (mus : nat -> (R -> R) -> R) (laws : forall k, Order.law (mus k)).
Context d1 d2 (T1 : measurableType d1) (T2 : measurableType d2) (mu1 : {measure set T1 -> \bar RR}) (mu2 : {measure set T2 -> \bar RR}).
Lemma extend (s2 : sigma_finite setT mu2) k w (p1 x1 : T1 -> RR) (p2 x2 : T1 * T2 -> RR) :
  measurable_fun setT p1 -> measurable_fun setT x1 -> (forall t, 0 <= p1 t) -> (forall t, 0 <= x1 t) ->
  measurable_fun setT p2 -> measurable_fun setT x2 -> (forall z, 0 <= p2 z) -> (forall z, 0 <= x2 z) ->
  (forall t f, K f -> (\int[mu2]_u (p2 (t, u) * (f (x2 (t, u)) : RR))%:E <= (mus k f : RR)%:E)%E) ->
  (forall f, K f -> (\int[mu1]_t (p1 t * (f (x1 t) : RR))%:E <= (word mus w f : RR)%:E)%E) ->
  forall f, K f -> (\int[product_measure1 mu1 s2]_z (p1 z.1 * p2 z * (f (x1 z.1 * x2 z) : RR))%:E <= (word mus (w ++ k :: nil)%list f : RR)%:E)%E.
Proof.
move=> mp1 mx1 p10 x10 mp2 mx2 p20 x20 dom IH f Kf.
have mp : measurable_fun setT (fun z : T1 * T2 => p1 z.1 * p2 z) by apply: measurable_funM => //; exact: m_on_fst.
have mx : measurable_fun setT (fun z : T1 * T2 => x1 z.1 * x2 z) by apply: measurable_funM => //; exact: m_on_fst.
have p0 (z : T1 * T2) : 0 <= p1 z.1 * p2 z by exact: mulr_ge0.
have x0 (z : T1 * T2) : 0 <= x1 z.1 * x2 z by exact: mulr_ge0.
rewrite (fubini_tonelli1 s2 _ (m_pf Kf mp mx x0) (fun z => pf_ge0 z Kf p0 x0) (m1 := mu1)).
pose F (r : R) : R := mus k (fun y => f (Rmult r y)).
have KF : K F by exact: (K_under (mus k) f (laws k) Kf).
have -> : word mus (w ++ k :: nil)%list f = word mus w F.
  rewrite -word_app //; congr (word mus w _); apply: funext => x; rewrite /= /comp /unit_law /F; congr (mus k); apply: funext => y.
  by rewrite Rmult_1_r.
apply: (le_trans _ (IH F KF)); apply: ge0_le_integral => //.
- by move=> t _; apply: integral_ge0 => u _; exact: (pf_ge0 (t, u) Kf p0 x0).
- by apply: measurable_fun_fubini_tonelli_F => //; [exact: (m_pf Kf mp mx x0) | move=> z; exact: (pf_ge0 z Kf p0 x0)].
- by move=> t _; exact: (pf_ge0 t KF p10 x10).
- exact: m_pf.
move=> t _; rewrite /fubini_F /=.
have Kt : K (fun y => f (Rmult (x1 t) y)) by apply: K_inner => //; apply/RleP.
have sec (g : T1 * T2 -> RR) : measurable_fun setT g -> measurable_fun setT (fun u => g (t, u)).
  by move=> mg; apply: (@measurable_fun_comp _ _ _ _ _ _ g setT (fun u => (t, u)) mg); apply/prod_measurable_funP; split; [exact: measurable_fun_cst | exact: measurable_fun_id].
have -> : (fun u => (p1 t * p2 (t, u) * (f (x1 t * x2 (t, u)) : RR))%:E) =
  (fun u => (p1 t)%:E * (p2 (t, u) * (f (Rmult (x1 t) (x2 (t, u))) : RR))%:E)%E.
  by apply: funext => u; rewrite -EFinM mulrA.
rewrite ge0_integralM //.
- by rewrite EFinM; apply: lee_wpmul2l; rewrite ?lee_fin //; exact: (dom t _ Kt).
- by apply: (m_pf Kt); [exact: sec | exact: sec | ].
- by move=> u _; exact: (@pf_ge0 _ _ (fun u => p2 (t, u)) (fun u => x2 (t, u)) _ u Kt).
- by rewrite lee_fin.
Qed.
End extend.

Lemma private_of eps (de : R) d (T : measurableType d) (mu : {measure set T -> \bar RR}) (p x : T -> RR) :
  measurable_fun setT p -> measurable_fun setT x -> (forall t, 0 <= p t) -> (forall t, 0 <= x t) ->
  (\int[mu]_t (p t * (excess eps (x t) : RR))%:E <= (de : RR)%:E)%E -> forall A, measurable A ->
  (\int[mu]_(t in A) (p t)%:E <= (exp eps : RR)%:E * \int[mu]_(t in A) (x t * p t)%:E + (de : RR)%:E)%E.
Proof.
move=> mp mx p0 x0 dom A mA; have Kf : K (excess eps) := K_phi eps.
have mxp : measurable_fun A (fun t => (x t * p t)%:E) by apply/measurable_funTS/EFin_measurable_fun; exact: measurable_funM.
have e0 : (0 <= (exp eps : RR)%:E)%E by rewrite lee_fin; apply/RleP; apply: Rlt_le; exact: exp_pos.
have me : measurable_fun A (fun t => (p t * (excess eps (x t) : RR))%:E) by apply/measurable_funTS; exact: m_pf.
apply: (@le_trans _ _ (\int[mu]_(t in A) ((exp eps : RR)%:E * (x t * p t)%:E + (p t * (excess eps (x t) : RR))%:E))%E).
  apply: ge0_le_integral => //.
  - by move=> t _; rewrite lee_fin.
  - by apply/measurable_funTS/EFin_measurable_fun.
  - by move=> t _; apply: adde_ge0; [apply: mule_ge0 => //; rewrite lee_fin mulr_ge0 | exact: pf_ge0].
  - by apply: emeasurable_funD => //; exact: measurable_funeM.
  - move=> t _; rewrite -EFinM -EFinD lee_fin; apply/RleP.
    change (Rle (p t) (Rplus (Rmult (exp eps) (Rmult (x t) (p t))) (Rmult (p t) (excess eps (x t))))).
    have := Rmax_r 0 (Rminus 1 (Rmult (exp eps) (x t))); rewrite -/(excess eps (x t)) => h.
    have : Rle (Rmult (p t) (Rminus 1 (Rmult (exp eps) (x t)))) (Rmult (p t) (excess eps (x t))).
      by apply: Rmult_le_compat_l => //; apply/RleP.
    by lra.
rewrite ge0_integralD //; last 3 first.
- by move=> t _; apply: mule_ge0 => //; rewrite lee_fin mulr_ge0.
- exact: measurable_funeM.
- by move=> t _; exact: pf_ge0.
rewrite ge0_integralM //; last by move=> t _; rewrite lee_fin mulr_ge0.
apply: lee_add2l; apply: (le_trans _ dom).
by apply: subset_integral => //; [exact: m_pf | move=> t _; exact: pf_ge0].
Qed.

Section forward.
Variables (X : Type) (m : nat -> nat) (C : nat -> R) (n : nat -> noise).
Variables (d0 : measure_display) (T0 : measurableType d0) (rho : {measure set T0 -> \bar RR}).
Hypothesis rho1 : rho setT = 1%E.
Variable grad : forall k, hist m T0 k -> X -> vec (m k).
Hypotheses (cl : short C grad) (mg : measurable_grad grad).
Variables (D1 D2 : list X) (r : X).
Let out := outs C n grad.
Definition data (dir : direction) : list X := match dir with remove => (D1 ++ r :: D2)%list | add => (D1 ++ D2)%list end.

Lemma C_pos k (h : hist m T0 k) : (0 < C k)%R.
Proof. exact: (cl h r).1. Qed.
Lemma outs_pos D k (h : hist m T0 k) : Rlt 0 (out D h).
Proof.
elim: k h => [|k IH] h; first exact: Rlt_0_1.
by apply: Rmult_lt_0_compat; [exact: IH | exact: (noisy_pos _ (C_pos h.1))].
Qed.
Lemma m_step D k : measurable_fun setT ((fun h : hist m T0 k * vec (m k) =>
  noisy_sum (rate (n k)) (dev (n k) * C k) (List.map (grad h.1) D) (zero (m k)) h.2) : hist m T0 k * vec (m k) -> RR).
Proof.
apply: (m_noisy _ _ _ (g := fun h : hist m T0 k * vec (m k) => grad h.1) (c := fun _ => zero (m k)) (t := snd)).
- by move=> x; exact: (m_on_fst (mg x)).
- exact: measurable_fun_cst.
- exact: (m_on_snd (@measurable_fun_id _ _ _)).
Qed.
Lemma m_outs D k : measurable_fun setT ((fun h => out D h) : hist m T0 k -> RR).
Proof.
elim: k => [|k IH]; first exact: measurable_fun_cst.
by apply: (@measurable_funM _ [the measurableType _ of (hist m T0 k * vec (m k))%type] RR setT); [exact: (m_on_fst IH) | exact: m_step].
Qed.

Definition ratio dir k (h : hist m T0 k) : RR := (out (data (other dir)) h * / out (data dir) h)%R.
Lemma m_ratio dir k : measurable_fun setT (ratio dir (k := k)).
Proof.
apply: measurable_funM; first exact: m_outs.
by apply: m_inverse; [exact: m_outs | move=> h; exact: outs_pos].
Qed.
Lemma ratio_pos dir k (h : hist m T0 k) : 0 <= ratio dir h.
Proof. by apply/RleP; apply: Rlt_le; apply: Rmult_lt_0_compat; [|apply: Rinv_0_lt_compat]; exact: outs_pos. Qed.

Lemma data_more dir k (h : hist m T0 k) : List.map (grad h) (data dir) = more dir (List.map (grad h) D1) (grad h r) (List.map (grad h) D2).
Proof. by case: dir; rewrite /= List.map_app. Qed.

Theorem forward dir k f : K f ->
  (\int[hist_volume m rho k]_h ((out (data dir) h : RR) * (f (ratio dir h) : RR))%:E <= (word (fun k => step_of (n k) dir) (List.seq 0 k) f : RR)%:E)%E.
Proof.
elim: k f => [|k IH] f Kf.
  rewrite /= /unit_law; have -> : (fun h : T0 => ((out (data dir) (k := 0) h : RR) * (f (ratio dir (k := 0) h) : RR))%:E) = cst (f 1%R : RR)%:E.
    by apply: funext => h; rewrite /ratio /out /= mul1r; congr EFin; congr f; change (1 * / 1 = 1)%R; field.
  by rewrite integral_cst // rho1 mule1.
pose p2 (z : hist m T0 k * vec (m k)) : RR := noisy_sum (rate (n k)) (dev (n k) * C k) (List.map (grad z.1) (data dir)) (zero (m k)) z.2.
pose q2 (z : hist m T0 k * vec (m k)) : RR := noisy_sum (rate (n k)) (dev (n k) * C k) (List.map (grad z.1) (data (other dir))) (zero (m k)) z.2.
have p20 z : Rlt 0 (p2 z) by exact: (noisy_pos _ (C_pos z.1)).
have q20 z : Rlt 0 (q2 z) by exact: (noisy_pos _ (C_pos z.1)).
have mp2 : measurable_fun setT p2 by exact: m_step.
have mx2 : measurable_fun setT (fun z => (q2 z * / p2 z)%R : RR).
  by apply: measurable_funM; [exact: m_step | exact: m_inverse].
have laws j : Order.law (step_of (n j) dir) by exact: (law_of_is_law (P_all (n j) dir) (@m_x (n j) dir) (@x_pos (n j) dir)).
have E (z : hist m T0 k * vec (m k)) : ratio dir (k := k.+1) z = ratio dir z.1 * (q2 z * / p2 z)%R.
  rewrite /ratio /out /=; have := outs_pos (data dir) z.1; have := p20 z; have := outs_pos (data (other dir)) z.1; rewrite -/(p2 z) -/(q2 z) /out.
  set a := outs _ _ _ _ _; set b := outs _ _ _ _ _ => a0 c0 b0.
  by change (@eq R (a * q2 z * / (b * p2 z)) (a * / b * (q2 z * / p2 z)))%R; field; lra.
have dom t g : K g -> (\int[proj1_sig (volume (m k))]_u (p2 (t, u) * (g (q2 (t, u) * / p2 (t, u))%R : RR))%:E <= (step_of (n k) dir g : RR)%:E)%E.
  move=> /K_meaning Kg; have := step_dominated (n k) (C_pos t) dir (List.map (grad t) D1) (List.map (grad t) D2) (proj2 (cl t r)) Kg.
  rewrite /drawn -!data_more; exact.
have := @extend (fun k => step_of (n k) dir) laws _ _ _ _ (hist_volume m rho k) _ (proj2_sig (volume (m k))) k (List.seq 0 k)
  (fun h => out (data dir) h) (ratio dir (k := k)) p2 (fun z => (q2 z * / p2 z)%R : RR) (@m_outs _ k) (@m_ratio dir k) _ (ratio_pos dir (k := k)) mp2 mx2 _ _ dom IH f Kf.
rewrite -List.seq_S => h; apply: (le_trans _ (h _ _ _)).
- by rewrite le_eqVlt; apply/orP; left; apply/eqP; apply: eq_integral => z _; rewrite E.
- by move=> t; apply/RleP; apply: Rlt_le; exact: outs_pos.
- by move=> z; apply/RleP; apply: Rlt_le.
- by move=> z; apply/RleP; apply: Rlt_le; apply: Rmult_lt_0_compat => //; exact: Rinv_0_lt_compat.
Qed.

Theorem forward_private dir eps N A : measurable A ->
  (chance C n rho grad (data dir) (k := N) A <= (exp eps : RR)%:E * chance C n rho grad (data (other dir)) (k := N) A +
    (composed (fun k => step_of (n k) dir) (List.seq 0 N) (excess eps) : RR)%:E)%E.
Proof.
move=> mA; have Kf : K (excess eps) := K_phi eps.
have p0 (h : hist m T0 N) : 0 <= (out (data dir) h : RR) by apply/RleP; apply: Rlt_le; exact: outs_pos.
have := private_of (@m_outs (data dir) N) (@m_ratio dir N) p0 (ratio_pos dir (k := N)) (forward dir N Kf) mA.
rewrite word_meaning; have -> : (fun t : hist m T0 N => (ratio dir t * (out (data dir) t : RR))%:E) = (fun t => (out (data (other dir)) t : RR)%:E).
  apply: funext => t; congr EFin; rewrite /ratio; have := outs_pos (data dir) t; set a := out _ _; set b := out _ _ => h.
  by change (@eq R (b * / a * a) b)%R; field; lra.
exact.
Qed.
End forward.

(* Several laws in one file, used in an order that is fixed in advance: step k has the law number [nth k w 0]. *)
Lemma composed_map step (g : nat -> nat) w : forall f, composed (fun k => step (g k)) w f = composed step (List.map g w) f.
Proof. by elim: w => [//|k w IH] f /=; congr (step _ _); apply: funext => x; exact: IH. Qed.
Lemma nth_all (w : list nat) : List.map (fun k => List.nth k w O) (List.seq 0 (List.length w)) = w.
Proof.
elim: w => [//|a w IH]; rewrite [List.length _]/= [List.seq _ _]/= [List.map _ _]/=; congr cons.
by rewrite -List.seq_shift List.map_map -[RHS]IH; apply: List.map_ext.
Qed.

