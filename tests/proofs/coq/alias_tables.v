(* The layout of an alias table gives every outcome exactly its mass: step W5 and the counting of step W6 of
   docs/proofs/alias-tables.md, checked by Coq 8.16. `make check-proofs` checks this file.

   The model is the loop of `fill_alias` in src/tallyveil/kernels/subspace/sums.py, with lists in place of the two ends
   of one array: `short` has the columns below the capacity, the next one first, and `full` has the others. An entry
   (c, t, o) is column c, its threshold, and its other outcome. *)

Require Import ZArith List Lia Permutation Bool PeanoNat.
Import ListNotations.
Open Scope Z_scope.

Section Layout.

Variable capacity : nat.
Hypothesis capacity_is_positive : (0 < capacity)%nat.
Let cap : Z := Z.of_nat capacity.

Definition masses := nat -> Z.
Definition entry := (nat * Z * nat)%type.

Definition update (m : masses) (i : nat) (value : Z) : masses :=
  fun j => if Nat.eqb j i then value else m j.

Fixpoint fill (steps : nat) (short full : list nat) (m : masses) : list entry :=
  match steps, short, full with
  | _, [], _ => map (fun i => (i, cap, i)) full
  | S steps', low :: short', high :: full' =>
      let m' := update m high (m high - (cap - m low)) in
      (low, m low, high)
        :: (if m' high <? cap then fill steps' (high :: short') full' m' else fill steps' short' (high :: full') m')
  | _, _, _ => []
  end.

(* What an entry gives to an outcome, and what a table gives to it. *)
Definition part (e : entry) (i : nat) : Z :=
  let '(c, t, o) := e in (if Nat.eqb c i then t else 0) + (if Nat.eqb o i then cap - t else 0).

Definition held (table : list entry) (i : nat) : Z := fold_right (fun e total => part e i + total) 0 table.

Definition total (m : masses) (columns : list nat) : Z := fold_right (fun i sum => m i + sum) 0 columns.

Definition column (e : entry) : nat := fst (fst e).
Definition threshold (e : entry) : Z := snd (fst e).

(* Sums over lists. *)

Lemma total_app : forall m one other, total m (one ++ other) = total m one + total m other.
Proof. intros m one other. induction one; simpl; lia. Qed.

Lemma total_update_absent : forall m i value columns, ~ In i columns -> total (update m i value) columns = total m columns.
Proof.
  intros m i value columns. induction columns as [|j rest IH]; simpl; intros absent; [reflexivity|].
  unfold update at 1. destruct (Nat.eqb_spec j i) as [E|E]; [exfalso; apply absent; auto|].
  rewrite IH; auto.
Qed.

Lemma total_above : forall m columns,
  (forall i, In i columns -> cap <= m i) -> Z.of_nat (length columns) * cap <= total m columns.
Proof.
  intros m columns. induction columns as [|j rest IH]; intros above; [simpl; lia|].
  assert (cap <= m j) by (apply above; simpl; auto).
  assert (Z.of_nat (length rest) * cap <= total m rest) by (apply IH; intros; apply above; simpl; auto).
  cbn [length total fold_right]. fold (total m rest). rewrite Nat2Z.inj_succ, Z.mul_succ_l. lia.
Qed.

Lemma total_below : forall m columns, columns <> [] ->
  (forall i, In i columns -> m i < cap) -> total m columns < Z.of_nat (length columns) * cap.
Proof.
  intros m columns. induction columns as [|j rest IH]; intros some below; [contradiction|].
  assert (m j < cap) by (apply below; simpl; auto).
  cbn [length total fold_right]. fold (total m rest). rewrite Nat2Z.inj_succ, Z.mul_succ_l.
  destruct rest as [|k rest']; [simpl; lia|].
  assert (total m (k :: rest') < Z.of_nat (length (k :: rest')) * cap)
    by (apply IH; [discriminate|intros; apply below; simpl in *; auto]).
  lia.
Qed.

(* Masses that are at least the capacity, and equal to it on average, are equal to it. *)
Lemma all_at_capacity : forall m columns,
  (forall i, In i columns -> cap <= m i) -> total m columns = Z.of_nat (length columns) * cap ->
  forall i, In i columns -> m i = cap.
Proof.
  intros m columns. induction columns as [|j rest IH]; intros above average i member; [contradiction|].
  assert (cap <= m j) by (apply above; simpl; auto).
  assert (above_rest : forall k, In k rest -> cap <= m k) by (intros; apply above; simpl; auto).
  assert (Z.of_nat (length rest) * cap <= total m rest) by (apply total_above; auto).
  cbn [length total fold_right] in average. fold (total m rest) in average. rewrite Nat2Z.inj_succ, Z.mul_succ_l in average.
  destruct member as [E|member]; [subst; lia|]. apply IH; auto. lia.
Qed.

Lemma held_of_whole_columns : forall columns i, NoDup columns ->
  held (map (fun j => (j, cap, j)) columns) i = if in_dec Nat.eq_dec i columns then cap else 0.
Proof.
  intros columns i. induction columns as [|j rest IH]; intros distinct; [reflexivity|].
  inversion distinct as [|x l absent distinct_rest E]; subst.
  cbn [map held fold_right]. fold (held (map (fun j => (j, cap, j)) rest) i). rewrite IH by auto.
  unfold part. destruct (Nat.eqb_spec j i) as [E|E].
  - subst. destruct (in_dec Nat.eq_dec i rest); [contradiction|].
    destruct (in_dec Nat.eq_dec i (i :: rest)) as [_|N]; [lia|exfalso; apply N; simpl; auto].
  - destruct (in_dec Nat.eq_dec i rest) as [Y|N];
      destruct (in_dec Nat.eq_dec i (j :: rest)) as [Y'|N']; simpl in *; try lia.
    + exfalso. apply N'. auto.
    + exfalso. destruct Y'; auto.
Qed.

(* The invariant of the loop. *)
Definition ready (short full : list nat) (m : masses) : Prop :=
  NoDup (short ++ full)
  /\ (forall i, In i short -> 0 <= m i < cap)
  /\ (forall i, In i full -> cap <= m i)
  /\ total m (short ++ full) = Z.of_nat (length (short ++ full)) * cap.

(* What the loop promises. *)
Definition exact (table : list entry) (columns : list nat) (m : masses) : Prop :=
  Permutation (map column table) columns
  /\ (forall e, In e table -> 0 <= threshold e <= cap)
  /\ (forall i, In i columns -> held table i = m i)
  /\ (forall i, ~ In i columns -> held table i = 0).

Lemma one_step_keeps_the_promise : forall low high others m table,
  low <> high -> ~ In low others -> ~ In high others -> 0 <= m low <= cap ->
  exact table (high :: others) (update m high (m high - (cap - m low))) ->
  exact ((low, m low, high) :: table) (low :: high :: others) m.
Proof.
  intros low high others m table differ low_absent high_absent fits (columns & thresholds & inside & outside).
  split; [|split; [|split]].
  - simpl. apply perm_skip. exact columns.
  - intros e [E|member]; [subst; exact fits|auto].
  - intros i member. cbn [held fold_right]. fold (held table i). unfold part.
    destruct (Nat.eq_dec i low) as [E|E].
    + subst. rewrite Nat.eqb_refl. destruct (Nat.eqb_spec high low); [congruence|].
      rewrite outside; [lia|]. intros [H|H]; congruence || contradiction.
    + destruct (Nat.eqb_spec low i); [congruence|].
      assert (still : In i (high :: others)) by (destruct member; [congruence|auto]).
      rewrite (inside i still). unfold update. destruct (Nat.eqb_spec high i) as [H|H].
      * subst. rewrite Nat.eqb_refl. lia.
      * destruct (Nat.eqb_spec i high); [congruence|lia].
  - intros i absent. cbn [held fold_right]. fold (held table i). unfold part.
    destruct (Nat.eqb_spec low i); [exfalso; apply absent; simpl; auto|].
    destruct (Nat.eqb_spec high i); [exfalso; apply absent; simpl; auto|].
    rewrite outside; [lia|]. intros H. apply absent. simpl in *. tauto.
Qed.

Lemma exact_of_permutation : forall table one other m,
  Permutation one other -> exact table one m -> exact table other m.
Proof.
  intros table one other m same (columns & thresholds & inside & outside).
  split; [|split; [|split]]; auto.
  - eapply Permutation_trans; eauto.
  - intros i member. apply inside. eapply Permutation_in; [apply Permutation_sym|]; eauto.
  - intros i absent. apply outside. intros member. apply absent. eapply Permutation_in; eauto.
Qed.

Theorem fill_is_exact : forall steps short full m,
  (length short + length full <= steps)%nat -> ready short full m ->
  exact (fill steps short full m) (short ++ full) m.
Proof.
  induction steps as [|steps IH]; intros short full m enough (distinct & below & above & average).
  - destruct short; [|simpl in enough; lia]. destruct full; [|simpl in enough; lia].
    simpl. split; [|split; [|split]]; simpl; auto; intros; contradiction.
  - destruct short as [|low short'].
    + replace (fill (S steps) [] full m) with (map (fun i => (i, cap, i)) full) by reflexivity.
      simpl app in *. split; [|split; [|split]].
      * rewrite map_map. simpl. rewrite map_id. apply Permutation_refl.
      * intros e member. apply in_map_iff in member. destruct member as (i & E & _). subst. unfold threshold, cap. simpl. lia.
      * intros i member. rewrite held_of_whole_columns by auto.
        destruct (in_dec Nat.eq_dec i full); [|contradiction].
        symmetry. eapply all_at_capacity; eauto.
      * intros i absent. rewrite held_of_whole_columns by auto.
        destruct (in_dec Nat.eq_dec i full); [contradiction|reflexivity].
    + destruct full as [|high full'].
      * exfalso. rewrite app_nil_r in average.
        assert (total m (low :: short') < Z.of_nat (length (low :: short')) * cap)
          by (apply total_below; [discriminate|intros; apply below; auto]).
        lia.
      * assert (fits : 0 <= m low < cap) by (apply below; simpl; auto).
        assert (large : cap <= m high) by (apply above; simpl; auto).
        assert (moved : Permutation (low :: high :: short' ++ full') ((low :: short') ++ high :: full')).
        { simpl. apply perm_skip. apply Permutation_middle. }
        assert (distinct' : NoDup (low :: high :: short' ++ full')).
        { eapply Permutation_NoDup; [apply Permutation_sym; exact moved|exact distinct]. }
        inversion distinct' as [|x l low_absent distinct_rest E]; subst.
        inversion distinct_rest as [|x l high_absent distinct_others E]; subst.
        assert (differ : low <> high) by (intros E; subst; apply low_absent; simpl; auto).
        assert (rest_average : total m (short' ++ full') + m low + m high
                               = (Z.of_nat (length (short' ++ full')) + 2) * cap).
        { rewrite total_app in *. cbn [total fold_right] in average.
          fold (total m short') in average. fold (total m full') in average.
          rewrite app_length in *. cbn [length] in average. lia. }
        set (m' := update m high (m high - (cap - m low))).
        assert (at_high : m' high = m high - (cap - m low)) by (unfold m', update; rewrite Nat.eqb_refl; reflexivity).
        assert (elsewhere : forall i, i <> high -> m' i = m i).
        { intros i N. unfold m', update. destruct (Nat.eqb_spec i high); [contradiction|reflexivity]. }
        assert (short_others : forall i, In i short' -> i <> high).
        { intros i member E. subst. apply high_absent. apply in_or_app. auto. }
        assert (full_others : forall i, In i full' -> i <> high).
        { intros i member E. subst. apply high_absent. apply in_or_app. auto. }
        assert (new_average : total m' (high :: short' ++ full')
                              = Z.of_nat (length (high :: short' ++ full')) * cap).
        { cbn [total fold_right length]. fold (total m' (short' ++ full')).
          unfold m' at 2. rewrite total_update_absent by auto. rewrite at_high. lia. }
        assert (promise : exact (if m' high <? cap then fill steps (high :: short') full' m'
                                 else fill steps short' (high :: full') m') (high :: short' ++ full') m').
        { destruct (Z.ltb_spec (m' high) cap) as [small|big].
          - change (high :: short' ++ full') with ((high :: short') ++ full').
            apply IH; [simpl in *; lia|].
            split; [exact distinct_rest|split; [|split; [|exact new_average]]].
            + intros i [E|member]; [subst; lia|].
              rewrite elsewhere by auto. apply below. simpl. auto.
            + intros i member. rewrite elsewhere by auto. apply above. simpl. auto.
          - assert (swap : Permutation (high :: short' ++ full') (short' ++ high :: full'))
              by apply Permutation_middle.
            eapply exact_of_permutation; [apply Permutation_sym; exact swap|].
            apply IH; [simpl in *; lia|].
            split; [eapply Permutation_NoDup; eauto|split; [|split]].
            + intros i member. rewrite elsewhere by auto. apply below. simpl. auto.
            + intros i [E|member]; [subst; exact big|]. rewrite elsewhere by auto. apply above. simpl. auto.
            + rewrite total_app in *. cbn [total fold_right length] in *.
              fold (total m' short') in *. fold (total m' full') in *.
              fold (total m' (short' ++ full')) in *. rewrite total_app in new_average.
              rewrite !app_length in *. cbn [length]. lia. }
        eapply exact_of_permutation; [exact moved|].
        apply one_step_keeps_the_promise; auto; [|lia].
        intros member. apply low_absent. simpl. auto.
Qed.

(* Counting: how many of the fractions 0, ..., capacity - 1 choose an outcome in one column. *)

Definition chosen (e : entry) (fraction : nat) : nat :=
  let '(c, t, o) := e in if Z.of_nat fraction <? t then c else o.

Definition count (e : entry) (i : nat) : Z :=
  Z.of_nat (length (filter (fun f => Nat.eqb (chosen e f) i) (seq 0 capacity))).

Lemma filter_constant : forall (f : nat -> bool) (b : bool) l,
  (forall x, In x l -> f x = b) -> length (filter f l) = if b then length l else 0%nat.
Proof.
  intros f b l same. induction l as [|x rest IH]; simpl; [destruct b; reflexivity|].
  rewrite (same x) by (simpl; auto).
  assert (length (filter f rest) = if b then length rest else 0%nat) by (apply IH; intros; apply same; simpl; auto).
  destruct b; simpl; lia.
Qed.

Lemma a_column_counts_what_it_holds : forall e i, 0 <= threshold e <= cap -> count e i = part e i.
Proof.
  intros [[c t] o] i. cbn [threshold fst snd]. intros fits. unfold count, part.
  assert (split : seq 0 capacity = seq 0 (Z.to_nat t) ++ seq (Z.to_nat t) (capacity - Z.to_nat t)).
  { rewrite <- (Nat.add_0_l (Z.to_nat t)) at 2. rewrite <- seq_app. f_equal. unfold cap in fits. lia. }
  rewrite split, filter_app, app_length.
  rewrite (filter_constant _ (Nat.eqb c i)); [rewrite (filter_constant _ (Nat.eqb o i))|].
  - rewrite !seq_length. unfold cap in *. destruct (Nat.eqb c i), (Nat.eqb o i); lia.
  - intros f member. apply in_seq in member. unfold chosen.
    destruct (Z.ltb_spec (Z.of_nat f) t); [lia|reflexivity].
  - intros f member. apply in_seq in member. unfold chosen.
    destruct (Z.ltb_spec (Z.of_nat f) t); [reflexivity|lia].
Qed.

(* The statement: of all pairs of a column and a fraction, exactly m i choose outcome i. *)
Definition pairs_that_choose (table : list entry) (i : nat) : Z :=
  fold_right (fun e sum => count e i + sum) 0 table.

Theorem every_outcome_gets_its_mass : forall n m short full,
  Permutation (short ++ full) (seq 0 n) ->
  (forall i, In i short -> 0 <= m i < cap) ->
  (forall i, In i full -> cap <= m i) ->
  total m (seq 0 n) = Z.of_nat n * cap ->
  let table := fill n short full m in
  Permutation (map column table) (seq 0 n)
  /\ (forall e, In e table -> 0 <= threshold e <= cap)
  /\ (forall i, (i < n)%nat -> pairs_that_choose table i = m i).
Proof.
  intros n m short full columns below above average table.
  assert (same_total : forall one other, Permutation one other -> total m one = total m other).
  { intros one other same. induction same; simpl; lia. }
  assert (size : length (short ++ full) = n) by (rewrite (Permutation_length columns); apply seq_length).
  assert (promise : exact table (short ++ full) m).
  { apply fill_is_exact; [rewrite app_length in size; lia|].
    split; [|split; [|split]]; auto.
    - eapply Permutation_NoDup; [apply Permutation_sym; exact columns|apply seq_NoDup].
    - rewrite (same_total _ _ columns), size. exact average. }
  destruct promise as (order & thresholds & inside & _).
  split; [eapply Permutation_trans; eauto|split; [exact thresholds|]].
  intros i small. rewrite <- inside by (eapply Permutation_in; [apply Permutation_sym; exact columns|apply in_seq; lia]).
  clear - thresholds capacity_is_positive. induction table as [|e rest IH]; [reflexivity|].
  cbn [pairs_that_choose held fold_right]. fold (pairs_that_choose rest i). fold (held rest i).
  rewrite IH by (intros; apply thresholds; simpl; auto).
  rewrite a_column_counts_what_it_holds by (apply thresholds; simpl; auto). reflexivity.
Qed.

End Layout.

Print Assumptions every_outcome_gets_its_mass.
