(* A matrix whose columns have at most one entry 1, at most one entry -1 and zeros else is totally unimodular: step R3 of
   docs/proofs/rounding.md, checked by Coq 8.16 with the Mathematical Components library. `make check-proofs` checks
   this file. The matrix has whole entries, any number of rows and columns, and no other property. *)

From mathcomp Require Import all_ssreflect all_algebra.
Set Implicit Arguments.
Unset Strict Implicit.
Import GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Definition small (x : int) : bool := [|| x == 0, x == 1 | x == -1].

Record network m n (A : 'M[int]_(m, n)) : Prop := Network {
  entries_are_small : forall i j, small (A i j);
  one_way_in : forall j i i', A i j = 1 -> A i' j = 1 -> i = i';
  one_way_out : forall j i i', A i j = -1 -> A i' j = -1 -> i = i'
}.

Lemma small_mul x y : small x -> small y -> small (x * y).
Proof.
by move=> /or3P[]/eqP-> /or3P[]/eqP->; rewrite ?mul0r ?mulr0 ?mul1r ?mulr1 ?mulN1r ?opprK.
Qed.

Lemma small_sign k : small ((-1) ^+ k).
Proof. by rewrite -signr_odd; case: (odd k). Qed.

(* Rows may be left out, and columns may be taken in any way. *)
Lemma network_part m n k l (A : 'M[int]_(m, n)) (f : 'I_k -> 'I_m) (g : 'I_l -> 'I_n) :
  injective f -> network A -> network (\matrix_(i, j) A (f i) (g j)).
Proof.
move=> f_inj [entries inside outside]; split.
- by move=> i j; rewrite mxE.
- by move=> j i i'; rewrite !mxE => p q; apply: f_inj; apply: inside p q.
- by move=> j i i'; rewrite !mxE => p q; apply: f_inj; apply: outside p q.
Qed.

Lemma network_minor n (A : 'M[int]_n.+1) i j : network A -> network (row' i (col' j A)).
Proof.
move=> good; have := network_part (lift j) (@lift_inj _ i) good.
by congr network; apply/matrixP=> a b; rewrite !mxE.
Qed.

(* Two different entries that are not zero are 1 and -1, and all others of the column are zero. *)
Lemma full_column_sums_to_zero n (A : 'M[int]_n.+1) j i1 i2 :
  network A -> i2 != i1 -> A i1 j != 0 -> A i2 j != 0 -> \sum_i A i j = 0.
Proof.
move=> [entries inside outside] differ nz1 nz2.
have opposite : A i1 j + A i2 j = 0.
  move: (entries i1 j) (entries i2 j); rewrite /small (negbTE nz1) (negbTE nz2) /=.
  case/orP=> /eqP e1; case/orP=> /eqP e2; rewrite e1 e2 ?subrr ?addNr //.
  - by move: differ; rewrite (inside _ _ _ e2 e1) eqxx.
  - by move: differ; rewrite (outside _ _ _ e2 e1) eqxx.
rewrite (bigD1 i1) //= (bigD1 i2) //= addrA opposite add0r big1 // => i /andP[d1 d2].
move: (entries i j) (entries i1 j) (entries i2 j); rewrite /small (negbTE nz1) (negbTE nz2) /=.
case/or3P=> /eqP e //; case/orP=> /eqP e1; case/orP=> /eqP e2; exfalso.
- by move: d1; rewrite (inside _ _ _ e e1) eqxx.
- by move: d1; rewrite (inside _ _ _ e e1) eqxx.
- by move: d2; rewrite (inside _ _ _ e e2) eqxx.
- by move: opposite; rewrite e1 e2.
- by move: opposite; rewrite e1 e2.
- by move: d2; rewrite (outside _ _ _ e e2) eqxx.
- by move: d1; rewrite (outside _ _ _ e e1) eqxx.
- by move: d1; rewrite (outside _ _ _ e e1) eqxx.
Qed.

Lemma determinant_is_small n (A : 'M[int]_n) : network A -> small (\det A).
Proof.
elim: n A => [|n IH] A good; first by rewrite det_mx00.
have [/existsP[j /existsP[i0 /forallP alone]]|none] :=
  boolP [exists j, exists i0, forall i, (i != i0) ==> (A i j == 0)].
- rewrite (expand_det_col A j) (bigD1 i0) //= big1 ?addr0; last first.
    by move=> i d; move: (alone i); rewrite d => /eqP->; rewrite mul0r.
  apply: small_mul; first by case: good.
  by rewrite /cofactor; apply: small_mul; [apply: small_sign|apply: IH; apply: network_minor].
suff /eqP-> : \det A == 0 by [].
apply/det0P; exists (const_mx 1).
  by apply/negP=> /eqP/matrixP/(_ 0 0)/eqP; rewrite !mxE.
apply/matrixP=> a j; rewrite !mxE.
have other i0 : exists2 i, i != i0 & A i j != 0.
  move: none; rewrite negb_exists => /forallP/(_ j); rewrite negb_exists => /forallP/(_ i0).
  by rewrite negb_forall => /existsP[i]; rewrite negb_imply => /andP[d nz]; exists i.
have [i1 _ nz1] := other 0; have [i2 differ nz2] := other i1.
rewrite -[RHS](full_column_sums_to_zero good differ nz1 nz2).
by apply: eq_bigr => i _; rewrite mxE mul1r.
Qed.

Theorem network_matrices_are_totally_unimodular m n k (A : 'M[int]_(m, n)) (f : 'I_k -> 'I_m) (g : 'I_k -> 'I_n) :
  network A -> injective f -> small (\det (\matrix_(i, j) A (f i) (g j))).
Proof. by move=> good f_inj; apply: determinant_is_small; apply: network_part. Qed.

Print Assumptions network_matrices_are_totally_unimodular.
