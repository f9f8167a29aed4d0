// SPDX-License-Identifier: Apache-2.0
// What these examples have in common.
#pragma once

#include <mpi.h>

#include <cstdio>
#include <exception>

/// Of states that MPI sends and combines whole, as one element each. The function is an MPI_Op's.
template <class States>
States reduced_over_ranks(const States& mine, MPI_User_function* combine) {
  States all;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Op op = MPI_OP_NULL;
  MPI_Type_contiguous(sizeof(States), MPI_BYTE, &type);
  MPI_Type_commit(&type);
  MPI_Op_create(combine, 1, &op);
  MPI_Allreduce(&mine, &all, 1, type, op, MPI_COMM_WORLD);
  MPI_Op_free(&op);
  MPI_Type_free(&type);
  return all;
}

/// main: run(rank, ranks) on every rank says how many of the rank's results are not those of
/// `whole`.
inline int run_on_ranks(int argc, char** argv, int (*run)(int rank, int ranks), const char* whole) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int failures = 0;
  try {
    failures = run(rank, ranks);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "rank %d: %s\n", rank, e.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  int all_failures = 0;
  MPI_Allreduce(&failures, &all_failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) {
    std::printf("%d ranks: %d results differ from one call on %s\n", ranks, all_failures, whole);
  }
  MPI_Finalize();
  return all_failures == 0 ? 0 : 1;
}
